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
    /// pipebench, with its target ratio in one of the comparisons.
    Own { comparison: Comparison, mark: f64 },
    /// A peer. By default it has no options but the number of streams.
    Peer { is_default: bool },
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

    fn costs(&self) -> Option<Spread> {
        self.spread(|sample| sample.cpu_s_per_gb)
    }

    /// True if `own` is compared with this row: as people run it, with peers without options; like for like, with all, but copies
    /// only with copies.
    fn is_rival_of(&self, own: &Row) -> bool {
        match (own.side, self.side) {
            (Side::Own { comparison, .. }, Side::Peer { is_default }) => match comparison {
                Comparison::AsPeopleRunIt => is_default,
                Comparison::LikeForLike => own.zero_copy || !self.zero_copy,
            },
            _ => false,
        }
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

/// One case.
pub struct Table {
    title: String,
    rows: Vec<Row>,
}

/// A row of pipebench beside its best rival.
struct Ratio<'rows> {
    own: &'rows Row,
    comparison: Comparison,
    mark: f64,
    best: &'rows Row,
    /// Ratio of the medians of rates.
    rate: f64,
    /// Ratio of the medians of CPU time per byte.
    cpu: f64,
    /// Ratios of rates within a round. Of 7 rounds, the lowest and the highest enclose the median with 98 %.
    pairs: Spread,
}

impl Table {
    /// Makes a table from rows that hold all rounds.
    pub fn new(case: &Case, rows: Vec<Row>) -> Table {
        Table {
            title: format!("{}, {} links", case.title, case.links()),
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

    /// pipebench's rows, each with its best rival.
    fn ratios(&self) -> impl Iterator<Item = Ratio<'_>> {
        self.rows.iter().filter_map(|own| {
            let Side::Own { comparison, mark } = own.side else {
                return None;
            };
            let best = self.best_against(own)?;
            Some(Ratio {
                own,
                comparison,
                mark,
                best,
                rate: own.rates()?.median / best.rates()?.median,
                cpu: own.costs()?.median / best.costs()?.median,
                pairs: own.pair_by_pair(best)?,
            })
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n", self.title)?;
        writeln!(
            f,
            "| variant | GB/s, median | min | max | CPU s/GB | cores busy |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for row in &self.rows {
            let (Some(rates), Some(costs), Some(cores)) =
                (row.rates(), row.costs(), row.spread(Sample::cores))
            else {
                writeln!(f, "| {} | no sample | | | | |", row.name)?;
                continue;
            };
            let Spread { median, min, max } = rates;
            let (cost, cores) = (costs.median, cores.median);
            let name = &row.name;
            writeln!(
                f,
                "| {name} | {median:.2} | {min:.2} | {max:.2} | {cost:.3} | {cores:.2} |"
            )?;
        }
        Ok(())
    }
}

/// All ratios in one table, comparison by comparison.
pub fn summary(tables: &[Table]) -> String {
    let mut lines = vec![
        "| case | pipebench | its best peer | rate of the peer's | mark | round by round | CPU s/GB of the peer's |".to_owned(),
        "|---|---|---|---|---|---|---|".to_owned(),
    ];
    for comparison in [Comparison::AsPeopleRunIt, Comparison::LikeForLike] {
        for table in tables {
            for ratio in table
                .ratios()
                .filter(|ratio| ratio.comparison == comparison)
            {
                let Ratio {
                    own,
                    best,
                    rate,
                    mark,
                    pairs,
                    cpu,
                    ..
                } = ratio;
                let missed = if pairs.max < mark { ", missed" } else { "" };
                lines.push(format!(
                    "| {}: {} | {} | {} | {rate:.2} | {mark:.2}{missed} | {pairs} | {cpu:.2} |",
                    table.title,
                    comparison.title(),
                    own.name,
                    best.name
                ));
            }
        }
    }
    lines.join("\n") + "\n"
}
