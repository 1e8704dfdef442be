//! Samples, medians, ratios, and tables of them in Markdown.

use std::fmt;

use super::cases::{Case, Comparison};

/// Figures of one run. GB are 10^9 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    pub gb_per_s: f64,
    pub cpu_s_per_gb: f64,
}

impl Sample {
    /// Number of cores that its processes kept busy.
    pub fn cores(&self) -> f64 {
        self.gb_per_s * self.cpu_s_per_gb
    }

    /// Rejects a sample without throughput, or with more busy cores than the machine has (5 % tolerance): its counts must be wrong.
    pub fn within_cores(self, cores: usize) -> Result<Sample, String> {
        if self.gb_per_s > 0.0 && self.cores() <= cores as f64 * 1.05 {
            Ok(self)
        } else {
            Err(format!("{self} cannot be on {cores} cores"))
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, cost, cores) = (self.gb_per_s, self.cpu_s_per_gb, self.cores());
        write!(
            f,
            "{rate:.2} GB/s, {cost:.3} CPU s/GB, {cores:.2} cores busy"
        )
    }
}

/// Owner of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Side {
    /// pipebench, with its target ratio.
    Own {
        mark: f64,
    },
    Peer,
}

/// One variant with its samples, round by round; `None` where a run was rejected.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub side: Side,
    pub zero_copy: bool,
    pub samples: Vec<Option<Sample>>,
}

impl Row {
    fn spread(&self, of: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().flatten().map(of).collect())
    }

    fn rates(&self) -> Option<Spread> {
        self.spread(|sample| sample.gb_per_s)
    }

    /// True if `own` is compared with this row: a copying variant with copying peers, a zero-copy one with all peers.
    fn is_rival_of(&self, own: &Row) -> bool {
        self.side == Side::Peer && (own.zero_copy || !self.zero_copy)
    }

    /// Ratios of this row's rates to those of another row in the same rounds.
    fn pair_by_pair(&self, other: &Row) -> Option<Spread> {
        let pairs = self.samples.iter().zip(&other.samples);
        let ratios = pairs.filter_map(|(own, other)| Some((*own)?.gb_per_s / (*other)?.gb_per_s));
        Spread::of(ratios.collect())
    }
}

/// Median, minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
        let median = (values[low] + values[high]) / 2.0;
        Some(Spread { median, min, max })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}-{:.2})", self.median, self.min, self.max)
    }
}

/// One case in one comparison.
pub struct Table {
    title: String,
    letter: char,
    rows: Vec<Row>,
}

impl Table {
    /// Makes a table from rows that hold all rounds.
    pub fn new(case: &Case, comparison: &Comparison, rows: Vec<Row>) -> Table {
        let (letter, rule) = (comparison.letter, comparison.title);
        Table {
            title: format!("{}, {} links: ({letter}) {rule}", case.title, case.links()),
            letter,
            rows,
        }
    }

    /// The row to compare `own` with: the rival with the highest median.
    fn best_against(&self, own: &Row) -> Option<&Row> {
        let rivals = self.rows.iter().filter(|row| row.is_rival_of(own));
        let with_rates = rivals.filter_map(|row| Some((row.rates()?.median, row)));
        let best = with_rates.max_by(|(one, _), (other, _)| one.total_cmp(other));
        best.map(|(_, row)| row)
    }

    /// pipebench's rows, each with its best rival, ratio of medians, ratios pair by pair, and mark.
    fn ratios(&self) -> impl Iterator<Item = (&Row, &Row, f64, Spread, f64)> {
        self.rows.iter().filter_map(|own| {
            let Side::Own { mark } = own.side else {
                return None;
            };
            let best = self.best_against(own)?;
            let ratio = own.rates()?.median / best.rates()?.median;
            Some((own, best, ratio, own.pair_by_pair(best)?, mark))
        })
    }

    fn write_row(&self, row: &Row, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(rates), Some(costs), Some(cores)) = (
            row.rates(),
            row.spread(|sample| sample.cpu_s_per_gb),
            row.spread(Sample::cores),
        ) else {
            return writeln!(f, "| {} | no sample | | | | | | |", row.name);
        };
        let Spread { median, min, max } = rates;
        let (cost, cores) = (costs.median, cores.median);
        write!(
            f,
            "| {} | {median:.2} | {min:.2} | {max:.2} | {cost:.3} | {cores:.2} |",
            row.name
        )?;
        let own = self
            .ratios()
            .find(|(own, ..)| own.name == row.name)
            .map(|(_, _, ratio, pairs, _)| format!(" {ratio:.2} | {pairs} |"));
        writeln!(f, "{}", own.unwrap_or_else(|| " | |".to_owned()))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n", self.title)?;
        writeln!(
            f,
            "| variant | GB/s, median | min | max | CPU s/GB | cores busy | of the best iperf | pair by pair |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        self.rows.iter().try_for_each(|row| self.write_row(row, f))
    }
}

/// All ratios in one table, comparison by comparison.
pub fn summary(tables: &[Table]) -> String {
    let mut lines = vec![
        "| case | pipebench | best iperf | ratio of medians | mark | pair by pair |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    for letter in ['a', 'b'] {
        for table in tables.iter().filter(|table| table.letter == letter) {
            for (own, best, ratio, pairs, mark) in table.ratios() {
                let (title, own, best) = (&table.title, &own.name, &best.name);
                lines.push(format!(
                    "| {title} | {own} | {best} | {ratio:.2} | {mark:.2} | {pairs} |"
                ));
            }
        }
    }
    lines.join("\n") + "\n"
}
