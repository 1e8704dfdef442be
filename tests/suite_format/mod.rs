//! A strict reader of the output of the Intel MPI Benchmarks, made from what version 3.0 (2006) and version 2021 print: it takes no line that the
//! suite does not have, except comments after an empty line, and in the head below the suite's own lines.

use std::iter::Peekable;
use std::str::Lines;

/// Names as the suite spells them, except those of files.
const NAMES: [&str; 27] = [
    "PingPong",
    "PingPing",
    "Sendrecv",
    "Exchange",
    "Allreduce",
    "Reduce",
    "Reduce_scatter",
    "Reduce_scatter_block",
    "Allgather",
    "Allgatherv",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Alltoall",
    "Alltoallv",
    "Bcast",
    "Barrier",
    "Uniband",
    "Biband",
    "Window",
    "Unidir_Get",
    "Unidir_Put",
    "Bidir_Get",
    "Bidir_Put",
    "Accumulate",
    "Open_Close",
];

/// True if the suite has a benchmark of this name, spelled in this way.
fn is_known(name: &str) -> bool {
    let parts: Vec<&str> = name.split('_').collect();
    let is_of_files = matches!(
        parts[..],
        [
            "S" | "P" | "C",
            "Write" | "IWrite" | "Read" | "IRead",
            "Indv" | "Expl" | "Shared" | "Priv",
        ]
    );
    is_of_files || NAMES.contains(&name)
}

/// Width of a column.
const WIDE: usize = 13;

struct Reader<'a> {
    lines: Peekable<Lines<'a>>,
    number: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> &'a str {
        self.number += 1;
        self.lines.next().expect("a further line")
    }

    fn next_if(&mut self, is_right: impl Fn(&str) -> bool) -> Option<&'a str> {
        let line = self.lines.next_if(|line| is_right(line))?;
        self.number += 1;
        Some(line)
    }

    #[track_caller]
    fn expect(&mut self, what: &str, is_right: impl Fn(&str) -> bool) -> &'a str {
        let line = self.next();
        assert!(
            is_right(line),
            "line {}: {line:?} is not {what}",
            self.number
        );
        line
    }

    /// The rest of a line that begins in this way.
    #[track_caller]
    fn after(&mut self, start: &str) -> &'a str {
        let line = self.expect(start, |line| line.starts_with(start));
        &line[start.len()..]
    }
}

fn is_rule(line: &str) -> bool {
    line.len() > 1 && line.starts_with('#') && line[1..].bytes().all(|one| one == b'-')
}

fn are_numbers(words: &str) -> bool {
    !words.trim().is_empty()
        && words
            .split_whitespace()
            .all(|word| word.parse::<u64>().is_ok())
}

/// Name of the month and day, time and year, as `asctime` prints them.
fn is_date(text: &str) -> bool {
    let names = |text: &str, all: &str| text.len() == 3 && all.contains(text);
    let parts: Vec<&str> = text.split_whitespace().collect();
    text.len() == 24
        && parts.len() == 5
        && names(parts[0], "Mon Tue Wed Thu Fri Sat Sun")
        && names(parts[1], "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")
        && parts[3].len() == 8
        && are_numbers(&format!(
            "{} {} {}",
            parts[2],
            parts[3].replace(':', " "),
            parts[4]
        ))
}

/// Reads a whole output; returns the benchmarks of its list, and the name of each table.
#[track_caller]
pub fn read(text: &str, is_current: bool) -> (Vec<String>, Vec<String>) {
    let mut reader = Reader {
        lines: text.lines().peekable(),
        number: 0,
    };
    let listed = head(&mut reader, is_current);
    let mut names = Vec::new();
    while reader.lines.peek().is_some() {
        // Where the record is kept, after the last table.
        if reader.next_if(|line| line.starts_with("record ")).is_some() {
            assert_eq!(reader.lines.next(), None);
            break;
        }
        // Between tables: empty lines, and comments after them.
        if reader.next_if(is_rule).is_none() {
            reader.expect("a comment", |line| {
                line.is_empty() || line.starts_with("# ")
            });
            continue;
        }
        names.push(table(&mut reader, is_current));
    }
    (listed, names)
}

#[track_caller]
fn head(reader: &mut Reader, is_current: bool) -> Vec<String> {
    let (dashes, suite) = match is_current {
        true => (64, "Intel(R) MPI Benchmarks 2021"),
        false => (51, "Intel (R) MPI Benchmark Suite V3.0"),
    };
    let is_its_rule = |line: &str| is_rule(line) && line.len() == 1 + dashes;
    reader.expect("the first rule", is_its_rule);
    let title = reader.after("#    ");
    assert!(title.contains(suite), "{title}");
    let part = title.rsplit(", ").next().expect("a part");
    assert!(
        ["MPI-1 part", "MPI-2 part", "MPI-IO part"].contains(&part),
        "{title}"
    );
    reader.expect("the second rule", is_its_rule);
    let date = reader.after("# Date                  : ");
    assert!(is_date(date), "{date:?}");
    for name in ["Machine", "System", "Release", "Version"] {
        let value = reader.after(&format!("# {name:<22}: "));
        assert!(!value.is_empty(), "{name}");
    }
    let version = reader.after("# MPI Version           : ");
    let number = version.split(' ').next().unwrap_or_default();
    assert!(number.parse::<f64>().is_ok(), "{version}");
    let threads = reader.after("# MPI Thread Environment: ");
    assert_eq!(threads, if is_current { "" } else { "MPI_THREAD_SINGLE" });
    while reader.next_if(|line| line.starts_with("# ")).is_some() {}
    reader.expect("an empty line", str::is_empty);
    if is_current {
        reader.expect("an empty line", str::is_empty);
        assert_eq!(reader.next(), "# Calling sequence was: ");
        reader.expect("an empty line", str::is_empty);
        reader.expect("the command", |line| line.contains("pipebench imb "));
        reader.expect("an empty line", str::is_empty);
    } else {
        assert_eq!(reader.next(), "#");
    }
    while reader
        .next_if(|line| line.contains("imum ") || line.ends_with("user defined"))
        .is_some()
    {}
    assert_eq!(reader.next(), "#");
    if part != "MPI-IO part" {
        reader.after("# MPI_Datatype                   :   MPI_BYTE");
        reader.after("# MPI_Datatype for reductions    :   MPI_FLOAT");
        reader.after("# MPI_Op                         :   MPI_SUM");
    }
    assert_eq!(
        [reader.next(), reader.next(), reader.next()],
        ["#", "#", ""]
    );
    assert_eq!(reader.next(), "# List of Benchmarks to run:");
    reader.expect("an empty line", str::is_empty);
    let mut listed = Vec::new();
    while let Some(line) = reader.next_if(|line| !line.is_empty()) {
        let name = line
            .strip_prefix("# ")
            .expect("a name")
            .trim_start_matches("(Multi-)");
        assert!(is_known(name), "{line}");
        listed.push(name.to_owned());
    }
    listed
}

/// A table after its first rule. Returns its name.
#[track_caller]
fn table(reader: &mut Reader, is_current: bool) -> String {
    let name = reader.after("# Benchmarking ");
    let name = name.strip_suffix(' ').expect("a space after the name");
    let bare = name.trim_start_matches("Multi-");
    assert!(is_known(bare), "{name}");
    let blocks = match reader.next_if(|line| line.starts_with("# #processes = ")) {
        Some(line) if line.ends_with("; rank order (rowwise): ") => " ",
        Some(line) => {
            assert!(are_numbers(&line["# #processes = ".len()..]), "{line}");
            ""
        }
        None => {
            let line = reader.after("# ( ");
            assert!(
                line.ends_with(" processes each running simultaneous ) "),
                "{line}"
            );
            "Group "
        }
    };
    // Ranks of groups, or of the rows of a map, each with an empty comment after it.
    while !blocks.is_empty()
        && reader
            .next_if(|line| line.starts_with(&format!("# {blocks}")))
            .is_some()
    {
        assert_eq!(reader.next(), "# ");
    }
    if let Some(line) = reader.next_if(|line| line.starts_with("# ( ")) {
        let rest = line["# ( ".len()..].trim_start_matches(|one: char| one.is_ascii_digit());
        let processes = [
            " additional process waiting in MPI_Barrier)",
            " additional processes waiting in MPI_Barrier)",
        ];
        assert!(processes.contains(&rest), "{line}");
    }
    let rule = reader.expect("the second rule", is_rule);
    if reader.next_if(|line| line == "#").is_some() {
        let mode = reader.after("#    MODE: ");
        assert!(["AGGREGATE ", "NON-AGGREGATE "].contains(&mode), "{mode}");
        assert_eq!(reader.next(), "#");
    }
    let heads = reader.expect("heads of columns", |line| line.starts_with(' '));
    assert_eq!(heads.len(), rule.len(), "{heads}");
    let columns = heads.split_whitespace().count();
    assert_eq!(heads.len(), columns * WIDE, "{heads}");
    assert!(heads.contains("#rep"), "{heads}");
    if is_current {
        assert!(
            !heads.contains("#rep.s") && !heads.contains("Mb/sec"),
            "{heads}"
        );
    }
    // With -multi 1 an empty line comes before the lines of each length.
    let separated = heads.contains("Group");
    while let Some(row) =
        reader.next_if(|line| line.starts_with(' ') || (separated && line.is_empty()))
    {
        let cells: Vec<f64> = row
            .split_whitespace()
            .map(|cell| cell.parse().expect(row))
            .collect();
        assert!(row.is_empty() || cells.len() == columns, "{row}");
        assert!(row.is_empty() || row.len() == columns * WIDE, "{row}");
    }
    if let Some(line) = reader.lines.peek() {
        assert!(
            separated || line.is_empty(),
            "{line:?} follows the rows of {name}"
        );
    }
    name.to_owned()
}
