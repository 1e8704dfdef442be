//! Tests of the Intel MPI Benchmarks' patterns on one machine, with real ranks over real sockets.
//! A reader made from the guide's samples parses the tables.

mod suite_format;
mod whole;

use std::path::Path;
use std::process::Command;

use pipebench::internals::record::{ImbRecord, Record};
use pipebench::internals::report::json;
use whole::{PIPEBENCH, alone};

fn pipebench(folder: &Path, words: &str) -> (Option<i32>, String, String) {
    alone::wait();
    let output = Command::new(PIPEBENCH)
        .args(words.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("pipebench runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// A table parsed from the suite's output.
#[derive(Debug, Default)]
struct Printed {
    name: String,
    /// Aggregate or non-aggregate; empty for a table without a mode.
    mode: String,
    /// Groups of ranks, or the rank order of a single group.
    groups: Vec<Vec<usize>>,
    processes: usize,
    heads: Vec<String>,
    rows: Vec<Vec<f64>>,
}

/// Parses the printed tables: a comment begins with #, a table with "# Benchmarking"; columns are 13 wide.
fn read(text: &str) -> Vec<Printed> {
    let mut tables: Vec<Printed> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers = |words: &[&str]| -> Vec<usize> {
            words
                .iter()
                .map(|word| word.parse().expect("a rank"))
                .collect()
        };
        if let Some(name) = line.strip_prefix("# Benchmarking ") {
            tables.push(Printed {
                name: name.trim().to_owned(),
                ..Printed::default()
            });
            continue;
        }
        let Some(table) = tables.last_mut() else {
            continue;
        };
        if line.starts_with("# #processes = ") {
            let count = words[3].trim_end_matches(';');
            table.processes = count.parse().expect("a number of processes");
        } else if line.starts_with("# ( ") && line.contains(" groups of ") {
            table.processes = words[5].parse().expect("a number of processes");
        } else if let Some(mode) = line.strip_prefix("#    MODE: ") {
            table.mode = mode.trim().to_owned();
        } else if line.starts_with("# Group ") {
            table.groups.push(numbers(&words[3..]));
        } else if line.starts_with("#  ") && table.heads.is_empty() && words.len() > 1 {
            // The matrix of a map, row by row.
            table.groups.push(numbers(&words[1..]));
        } else if !line.starts_with('#') && line.contains("t") && table.heads.is_empty() {
            table.heads = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(line.len(), 13 * words.len(), "{line:?}");
        } else if !line.starts_with('#') && !words.is_empty() && !table.heads.is_empty() {
            let cells: Result<Vec<f64>, _> = words.iter().map(|word| word.parse()).collect();
            let Ok(row) = cells else { continue };
            assert_eq!(row.len(), table.heads.len(), "{line:?}");
            assert_eq!(line.len(), 13 * row.len(), "{line:?}");
            table.rows.push(row);
        }
    }
    tables
}

struct Ran {
    said: String,
    tables: Vec<Printed>,
    record: Record,
}

impl Ran {
    fn job(&self) -> &ImbRecord {
        self.record.outcome.imb().expect("results of this kind")
    }
}

#[track_caller]
fn ran(folder: &Path, words: &str) -> Ran {
    let all = format!("imb {words} --json record.json");
    let (code, said, errors) = pipebench(folder, &all);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{words}: {said}");
    let text = std::fs::read_to_string(folder.join("record.json")).expect("a record");
    let record = json::read(&text).expect("a record");
    let tables = read(&said);
    // A program that reads the suite's output finds every table, and nothing that it does not know.
    let (listed, names) = suite_format::read(&said, words.contains("--rules current"));
    assert!(!listed.is_empty(), "{said}");
    let printed: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, printed);
    Ran {
        tables,
        record,
        said,
    }
}

/// Sample 1 of the guide: two processes, PingPong and Allreduce, the same lengths and repetitions line by line.
#[test]
fn two_processes_print_the_tables_of_the_guides_first_sample() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = ran(folder.path(), "--hosts local:2 pingpong allreduce");
    let [ping, sum] = &ran.tables[..] else {
        panic!("{}", ran.said);
    };
    assert_eq!((ping.name.as_str(), ping.processes), ("PingPong", 2));
    assert_eq!(
        ping.heads,
        ["#bytes", "#repetitions", "t[usec]", "Mbytes/sec"]
    );
    let expected: Vec<(f64, f64)> = std::iter::once((0.0, 1000.0))
        .chain((0..=22).map(|log| {
            let bytes = f64::from(1 << log);
            (bytes, (41_943_040.0 / bytes).floor().clamp(1.0, 1000.0))
        }))
        .collect();
    let counts = |table: &Printed| -> Vec<(f64, f64)> {
        table.rows.iter().map(|row| (row[0], row[1])).collect()
    };
    assert_eq!(counts(ping), expected);
    // Throughput is bytes / 1.048576 / t, as printed with two digits.
    for row in ping.rows.iter().filter(|row| row[0] > 0.0) {
        let rate = row[0] / 1.048_576 / row[2];
        assert!(
            (row[3] - rate).abs() <= 0.01 + rate * 0.006 / row[2],
            "{row:?}"
        );
    }
    assert_eq!(sum.name, "Allreduce");
    assert_eq!(
        sum.heads,
        [
            "#bytes",
            "#repetitions",
            "t_min[usec]",
            "t_max[usec]",
            "t_avg[usec]"
        ]
    );
    let sums: Vec<(f64, f64)> = expected
        .into_iter()
        .filter(|(bytes, _)| *bytes < 1.0 || *bytes >= 4.0)
        .collect();
    assert_eq!(counts(sum), sums);
    for row in &sum.rows {
        assert!(
            row[2] <= row[4] + 0.01 && row[4] <= row[3] + 0.01,
            "{row:?}"
        );
    }
    for words in [
        "# Transport             : TCP between nodes\n",
        "# Minimum message length in bytes:   0\n# Maximum message length in bytes:   4194304\n",
        "# List of Benchmarks to run:\n\n# PingPong\n# Allreduce\n",
        "\n# algorithm: recursive-doubling, ",
        "\n#----------------------------------------------------------------\n# Benchmarking Allreduce \n",
    ] {
        assert!(ran.said.contains(words), "{words}: {}", ran.said);
    }
    assert!(ran.job().complete);
}

/// Sample 2 of the guide: groups paired by a map, lengths from a file, options with one dash.
#[test]
fn groups_and_maps_are_those_of_the_guides_second_sample() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("Lengths"),
        "0\n100\n1000\n10000\n100000\n1000000\n",
    )
    .expect("written");
    let ran = ran(
        folder.path(),
        "--hosts local:2 --ranks-per-node 2 pingping allreduce -map 2x2 -msglen Lengths -multi 0",
    );
    let shown: Vec<(&str, usize, &Vec<Vec<usize>>)> = ran
        .tables
        .iter()
        .map(|table| (table.name.as_str(), table.processes, &table.groups))
        .collect();
    let pairs = vec![vec![0, 2], vec![1, 3]];
    assert_eq!(
        shown,
        [
            ("Multi-PingPing", 2, &pairs),
            ("Multi-Allreduce", 2, &pairs),
            // The rows of the matrix.
            ("Allreduce", 4, &pairs),
        ]
    );
    assert_eq!(
        ran.tables[0].heads,
        [
            "#bytes",
            "#rep.s",
            "t_min[usec]",
            "t_max[usec]",
            "t_avg[usec]",
            "Mbytes/sec"
        ]
    );
    for table in &ran.tables {
        let counts: Vec<f64> = table.rows.iter().map(|row| row[1]).collect();
        assert_eq!(counts, [1000.0, 1000.0, 1000.0, 1000.0, 419.0, 41.0]);
    }
    assert!(
        ran.said
            .contains("# (Multi-)PingPing\n# (Multi-)Allreduce\n")
    );
    assert!(
        ran.said
            .contains("# Maximum message length in bytes:   1000000\n")
    );
}

#[test]
fn every_benchmark_is_right_over_all_transports_and_by_both_rules() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = "pingpong,pingping,sendrecv,exchange,bcast,allgather,allgatherv,alltoall,alltoallv,reduce,reduce_scatter,allreduce,barrier,\
               reduce_scatter_block,gather,gatherv,scatter,scatterv,uniband,biband";
    for (words, tables) in [
        ("--hosts local:3 --transport tcp", 20 + 16),
        (
            "--hosts local:2 --rules current --time 1 --ranks-per-node 2",
            20 + 18,
        ),
        (
            "--hosts local:1 --ranks-per-node 3 --rules current --time 1",
            20 + 16,
        ),
        ("--hosts local:3 --transport unix", 20 + 16),
    ] {
        let words = format!("{words} {all} -check -iter 20,1 -msglog 0:17");
        let ran = ran(folder.path(), &words);
        assert_eq!(ran.tables.len(), tables, "{}", ran.said);
        for table in &ran.tables {
            let defects = table.heads.iter().position(|head| head == "defects");
            assert_eq!(
                defects.is_none(),
                ["Barrier", "Uniband", "Biband"].contains(&table.name.as_str()),
                "{table:?}"
            );
            assert!(
                table
                    .rows
                    .iter()
                    .all(|row| defects.is_none_or(|at| row[at] == 0.0)),
                "{table:?}"
            );
            let lines = table.rows.len();
            assert!(lines >= 17 || table.name == "Barrier", "{table:?}");
        }
        let uniband = ran.tables.iter().find(|table| table.name == "Uniband");
        let uniband = uniband.expect("measured");
        assert_eq!(uniband.heads[2..4], ["Mbytes/sec", "Msg/sec"]);
    }
}

/// Covers sums by pieces while the next piece arrives, messages in several pieces, and long ones from memory to memory.
#[test]
fn long_messages_are_right_over_all_transports() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = "pingpong,pingping,sendrecv,exchange,bcast,allgather,alltoall,reduce,reduce_scatter,allreduce";
    for words in [
        "--hosts local:3 --transport tcp",
        "--hosts local:1 --ranks-per-node 2",
        "--hosts local:2 --ranks-per-node 2 --rules current --time 1",
    ] {
        let words = format!("{words} {all} -check -iter 3,1000 -npmin 9 -msglog 20:21");
        let ran = ran(folder.path(), &words);
        assert_eq!(ran.tables.len(), 10, "{}", ran.said);
        for table in &ran.tables {
            let defects = table.heads.iter().position(|head| head == "defects");
            let defects = defects.expect("a column");
            assert_eq!(table.rows.len(), 3, "{table:?}");
            assert!(
                table.rows.iter().all(|row| row[defects] == 0.0),
                "{table:?}"
            );
        }
    }
}

#[test]
fn names_and_lengths_come_from_files_and_what_cannot_be_done_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let select = "# of the acceptance\nPingPong\nmulti-Bcast  # both\n\nReduce\nBarrier\n";
    std::fs::write(folder.path().join("IMB_SELECT"), select).expect("written");
    std::fs::write(folder.path().join("lengths"), "0\n5 # bytes\n2k\n1M\n").expect("written");
    let ran = ran(
        folder.path(),
        "--hosts local:2 -input IMB_SELECT -msglen lengths -iter 10 --algorithm chain",
    );
    let names: Vec<&str> = ran.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["PingPong", "Bcast", "Reduce", "Barrier"]);
    let lengths = |table: &Printed| table.rows.iter().map(|row| row[0]).collect::<Vec<_>>();
    assert_eq!(lengths(&ran.tables[1]), [0.0, 5.0, 2048.0, 1_048_576.0]);
    // A sum adds whole floats.
    assert_eq!(lengths(&ran.tables[2]), [0.0, 8.0, 2048.0, 1_048_576.0]);
    assert!(
        ran.said
            .contains("\n# no chain for these, the usual algorithm instead: Barrier\n"),
        "{}",
        ran.said
    );
    let forced = ran.said.matches("# algorithm: chain\n").count();
    assert_eq!(forced, 2, "{}", ran.said);
    // One rank is too few for PingPong.
    let ran = self::ran(
        folder.path(),
        "--hosts local:1 PingPong Sendrecv -iter 10 -msglog 2:3",
    );
    assert_eq!(ran.tables.len(), 1);
    assert!(
        ran.said
            .contains("\n# !! Benchmark PingPong invalid for 1 process !!\n"),
        "{}",
        ran.said
    );
}

#[test]
fn windows_of_others_are_reached_over_all_transports() {
    let folder = tempfile::tempdir().expect("a folder");
    for (words, over) in [
        ("--hosts local:3 --transport tcp", "TCP"),
        ("--hosts local:3 --transport unix", "Unix-domain sockets"),
        (
            "--hosts local:1 --ranks-per-node 3",
            "shared memory within a node",
        ),
        (
            "--hosts local:2 --ranks-per-node 2 --rules current --time 1",
            "TCP between nodes, shared memory within a node",
        ),
    ] {
        let words = format!("{words} --part ext -check -iter 50,4,20 -npmin 9 -msglog 0:18");
        let ran = ran(folder.path(), &words);
        let transport = ran.said.lines().find(|line| line.contains("# Transport"));
        let transport = transport.expect("in the head");
        assert!(transport.ends_with(&format!(": {over}")), "{transport}");
        assert!(ran.said.contains(", MPI-2 part\n"), "{}", ran.said);
        assert!(
            ran.said.contains(" waiting in MPI_Barrier)\n"),
            "{}",
            ran.said
        );
        let told: Vec<(&str, &str)> = ran
            .tables
            .iter()
            .map(|table| (table.name.as_str(), table.mode.as_str()))
            .collect();
        let both = ["AGGREGATE", "NON-AGGREGATE"];
        let mut expected = vec![("Window", "")];
        let unidirectional = match words.contains("current") {
            true => ["Unidir_Get", "Unidir_Put"],
            false => ["Unidir_Put", "Unidir_Get"],
        };
        let others = ["Bidir_Get", "Bidir_Put", "Accumulate"];
        for name in unidirectional.into_iter().chain(others) {
            expected.extend(both.map(|mode| (name, mode)));
        }
        assert_eq!(told, expected);
        for table in &ran.tables {
            // Window has nothing to compare.
            let defects = table.heads.iter().position(|head| head == "defects");
            assert_eq!(defects.is_none(), table.name == "Window", "{table:?}");
            let sound = |row: &Vec<f64>| defects.is_none_or(|at| row[at] == 0.0);
            assert!(table.rows.iter().all(sound), "{table:?}");
            let floats = table.name == "Accumulate" || words.contains("current");
            assert_eq!(table.rows.len(), if floats { 18 } else { 20 }, "{table:?}");
            assert_eq!(table.rows[0][0], 0.0);
            assert_eq!(table.rows[1][0], if floats { 4.0 } else { 1.0 });
            let most = if table.mode == "AGGREGATE" {
                50.0
            } else {
                20.0
            };
            assert!(table.rows.iter().all(|row| row[1] <= most), "{table:?}");
            assert!(table.rows.iter().all(|row| row[2] >= 0.0), "{table:?}");
        }
    }
}

#[test]
fn files_are_written_and_read_in_every_way_and_nothing_of_them_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("files");
    std::fs::create_dir(&files).expect("a folder");
    let path = files.display();
    // Sample 3 of the guide, but for its longest portions.
    let ran = ran(
        folder.path(),
        &format!("--hosts local:2 p_write_indv -npmin 2 -msglog 0:19 --io-path {path}"),
    );
    assert!(
        ran.said.contains(
            "# Minimum io portion in bytes:   0\n# Maximum io portion in bytes:   524288\n"
        )
    );
    assert!(ran.said.contains("MPI-IO part"), "{}", ran.said);
    let told: Vec<_> = ran.tables.iter().map(|table| table.mode.as_str()).collect();
    assert_eq!(told, ["AGGREGATE", "NON-AGGREGATE"]);
    for (table, most) in ran.tables.iter().zip([50.0, 10.0]) {
        assert_eq!(table.name, "P_Write_Indv");
        let heads = [
            "#bytes",
            "#rep.s",
            "t_min[usec]",
            "t_max",
            "t_avg",
            "Mb/sec",
        ];
        assert_eq!(table.heads, heads);
        let counts: Vec<f64> = table.rows.iter().map(|row| row[1]).collect();
        assert_eq!((counts.len(), counts[0]), (21, most));
        assert_eq!(counts[20], most.min(32.0));
    }
    assert!(
        ran.said
            .contains("# page cache: what is written goes there first; fsync took ")
    );
    // Every benchmark, with a comparison of the file contents.
    let ran = self::ran(
        folder.path(),
        &format!(
            "--hosts local:1 --ranks-per-node 3 --part io -check -iter 4,4,2 -msglog 14:18 --cpu-time 0.001 --io-path {path} --csv io.csv"
        ),
    );
    // One rank: 2 x 2 write tables, 2 read tables, 4 with overlap. For 1, 2 and 3 ranks each: 7 x 2, 7 and 14, and Open_Close.
    assert_eq!(ran.tables.len(), 10 + 3 * (14 + 7 + 14 + 1));
    for table in &ran.tables {
        let defects = table.heads.iter().position(|head| head == "defects");
        assert_eq!(defects.is_none(), table.name == "Open_Close", "{table:?}");
        let sound = |row: &Vec<f64>| defects.is_none_or(|at| row[at] == 0.0);
        assert!(table.rows.iter().all(sound), "{table:?}");
        if table.name.contains("_IWrite") || table.name.contains("_IRead") {
            let heads = ["t_ovrl[usec]", "t_pure[usec]", "t_CPU[usec]", "overlap[%]"];
            assert_eq!(table.heads[2..6], heads);
            let possible = |row: &Vec<f64>| row[5] >= 0.0 && row[5] <= 100.0 && row[4] > 0.0;
            assert!(table.rows.iter().all(possible), "{table:?}");
        }
    }
    assert!(
        ran.said
            .contains(" % of what was read came from memory, by length\n")
    );
    assert!(
        ran.said
            .contains("\n# Function CPU_Exploit obtains an undisturbed\n# performance of ")
    );
    let table = std::fs::read_to_string(folder.path().join("io.csv")).expect("written");
    assert!(
        table
            .lines()
            .next()
            .is_some_and(|heads| heads.contains("cached,fsync_us,pure_us"))
    );
    // The current rules repeat as often as for messages, or as time allows, and have other heads. Files are in memory: fsync takes no time.
    let quick = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let in_memory = quick.path().display();
    let ran = self::ran(
        folder.path(),
        &format!(
            "--hosts local:2 P_Read_Shared C_Write_Indv S_IRead_Expl Open_Close --rules current --time 3 --cpu-time 0.001 -check -msglog 12:14 --io-path {in_memory}"
        ),
    );
    assert_eq!(ran.tables.len(), 2 + 4 + 1 + 2);
    for table in &ran.tables {
        let defects = table.heads.iter().position(|head| head == "defects");
        let sound = |row: &Vec<f64>| defects.is_none_or(|at| row[at] == 0.0);
        assert!(table.rows.iter().all(sound), "{table:?}");
        let counts = table.heads.iter().position(|head| head == "#repetitions");
        let counts = counts.expect("a column");
        let most = match table.mode.as_str() {
            "NON-AGGREGATE" => 100.0,
            _ if table.name == "Open_Close" => 100.0,
            _ => 1000.0,
        };
        assert!(
            table.rows.iter().all(|row| row[counts] <= most),
            "{table:?}"
        );
        assert!(
            table.rows.len() == 4 || table.name == "Open_Close",
            "{table:?}"
        );
        if table.name == "P_Read_Shared" {
            assert!(table.rows[0][counts] > 50.0, "{table:?}");
        }
    }
    for folder in [files.as_path(), quick.path()] {
        let left = std::fs::read_dir(folder).expect("there").count();
        assert_eq!(left, 0, "nothing is left of what was written");
    }
    // A write failure names the path and the reason.
    let (code, _, errors) = pipebench(
        folder.path(),
        &format!("imb --hosts local:2 Open_Close --io-path {path}/none"),
    );
    assert_eq!(code, Some(12), "{errors}");
    assert!(
        errors.contains("cannot make ") && errors.contains("no such file or directory"),
        "{errors}"
    );
    assert_eq!(
        errors
            .lines()
            .filter(|line| line.starts_with("pipebench:"))
            .count(),
        1,
        "{errors}"
    );
}

#[test]
fn groups_each_have_a_row_and_the_csv_has_what_the_tables_lack() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = ran(
        folder.path(),
        "--hosts local:4 PingPong Sendrecv -multi 1 -iter 30,1 -msglog 2:4 --csv all.csv --folder kept",
    );
    let names: Vec<&str> = ran.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["Multi-PingPong", "Multi-Sendrecv", "Sendrecv"]);
    assert_eq!(
        ran.tables[0].heads,
        ["Group", "#bytes", "#repetitions", "t[usec]", "Mbytes/sec"]
    );
    let firsts: Vec<(f64, f64)> = ran.tables[0]
        .rows
        .iter()
        .map(|row| (row[0], row[1]))
        .collect();
    assert_eq!(
        firsts[..4],
        [(0.0, 0.0), (1.0, 0.0), (0.0, 4.0), (1.0, 4.0)]
    );
    let table = std::fs::read_to_string(folder.path().join("all.csv")).expect("written");
    let mut lines = table.lines();
    let heads: Vec<&str> = lines.next().expect("a head").split(',').collect();
    let at = |name: &str| {
        heads
            .iter()
            .position(|head| *head == name)
            .expect("a column")
    };
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 2 * 4 + 2 * 4 + 4);
    for row in rows {
        let number = |name: &str| row[at(name)].parse::<f64>().expect("a number");
        assert_eq!(
            (number("batches"), number("repetitions_per_batch")),
            (30.0, 1.0)
        );
        assert_eq!(row[at("transport")], "TCP between nodes");
        assert_eq!(row[at("rules")], "guide");
        assert!(number("least_us") <= number("median_us"), "{row:?}");
        assert!(number("median_us") <= number("p95_us"), "{row:?}");
        assert!(number("p95_us") <= number("most_us"), "{row:?}");
    }
    let run = std::fs::read_dir(folder.path().join("kept")).expect("a folder");
    let run = run
        .filter_map(Result::ok)
        .next()
        .expect("of the run")
        .path();
    assert!(
        !run.join("journal.jsonl").exists(),
        "the record has all of it"
    );
    let kept = std::fs::read_to_string(run.join("summary.txt")).expect("kept");
    let name = run
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let (code, text, _) = pipebench(folder.path(), &format!("report {name} --in kept"));
    assert_eq!(code, Some(0));
    assert!(
        text.starts_with("NOT JUDGED  3 tables of patterns: "),
        "{text}"
    );
    let (_, csv, _) = pipebench(
        folder.path(),
        &format!("report {name} --in kept --format csv"),
    );
    assert_eq!(csv, table);
    let (code, page, errors) = pipebench(
        folder.path(),
        &format!("report {name} --in kept --format html --beside {name}"),
    );
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(page.contains("Dashed lines show the other runs."), "{page}");
    assert_eq!(page.matches("path class=\"curve k0\"").count(), 4, "{page}");
    assert_eq!(
        page.matches(" beside\"").count(),
        6,
        "of three tables, two of which have throughput twice"
    );
    for (words, expected) in [
        ("", "--beside needs --format html"),
        ("--format html --beside none", "no run "),
    ] {
        let words = format!("report {name} --in kept --beside {name} {words}");
        let (code, _, errors) = pipebench(folder.path(), &words);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
    let (_, page, _) = pipebench(
        folder.path(),
        &format!("report {name} --in kept --format html"),
    );
    assert!(
        page.contains("<h3>PingPong</h3>") && page.matches("<svg class=\"curves\"").count() == 4,
        "{page}"
    );
    let tables = &ran.said[ran
        .said
        .find("\n#---")
        .map_or(0, |_| ran.said.find("# Benchmarking").expect("a table"))..];
    let first = kept.find("# Benchmarking").expect("a table");
    assert!(tables.starts_with(kept[first..].trim_end()), "{kept}");
}

#[test]
fn what_somebody_else_writes_into_a_file_is_found_named_and_ends_with_20() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("files");
    std::fs::create_dir(&files).expect("a folder");
    let over = AtomicBool::new(false);
    let (code, said, errors) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                for run in std::fs::read_dir(&files).into_iter().flatten().flatten() {
                    let file = run.path().join("IMB_out");
                    if let Ok(file) = std::fs::File::options().write(true).open(file) {
                        use std::os::unix::fs::FileExt;
                        file.write_all_at(&[0xee; 4096], 0).ok();
                    }
                }
            }
        });
        let told = pipebench(
            folder.path(),
            &format!(
                "imb --hosts local:2 -check P_Read_Expl S_Read_Indv -msglog 12:16 -iter 50 --io-path {}",
                files.display()
            ),
        );
        over.store(true, Ordering::SeqCst);
        told
    });
    assert_eq!(code, Some(20), "{said}{errors}");
    let expected = "_Read_";
    assert!(
        errors.contains(expected) && errors.contains(" is 4008636142, expected "),
        "{errors}"
    );
    let tables = read(&said);
    assert_eq!(tables.len(), 3, "all tables were measured: {said}");
    let defects: Vec<f64> = tables
        .iter()
        .flat_map(|table| &table.rows)
        .filter_map(|row| row.last().copied())
        .collect();
    assert!(defects.iter().any(|defect| *defect > 0.0), "{said}");
}

#[test]
fn a_launching_side_that_is_killed_leaves_what_was_measured() {
    alone::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(PIPEBENCH)
        .args(
            "imb --hosts local:2 --folder kept PingPong Sendrecv Exchange -iter 20000,4000"
                .split(' '),
        )
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("pipebench runs");
    let kept = folder.path().join("kept");
    let journal = || -> Vec<serde_json::Value> {
        let runs = std::fs::read_dir(&kept).into_iter().flatten().flatten();
        let texts =
            runs.filter_map(|run| std::fs::read_to_string(run.path().join("journal.jsonl")).ok());
        let text: String = texts.collect();
        // The last line can be incomplete.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("a document"))
            .collect()
    };
    let of = |kind: &str| {
        journal()
            .iter()
            .filter(|line| line.get(kind).is_some())
            .count()
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while of("line") < 3 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = i32::try_from(child.id()).expect("a number");
    let tree = whole::below(pid);
    assert!(tree.len() >= 4, "two nodes with a rank each: {tree:?}");
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    let first = journal().into_iter().next().expect("a first line");
    assert_eq!(first["journal"], 2);
    assert_eq!(first["command"][0], "imb");
    assert_eq!(first["hosts"].as_array().map(Vec::len), Some(2));
    assert!((of("table"), of("line")) >= (1, 3), "{:?}", journal().len());
    let line = journal()
        .into_iter()
        .find(|line| line.get("line").is_some());
    let line = &line.expect("a line")["line"];
    assert_eq!(line["bytes"], 0);
    assert!(
        line["groups"][0]["most_s"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0)
    );
    whole::expect_gone("the launching side was killed", &tree);
}

#[test]
fn help_is_help_and_what_cannot_be_done_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    for help in ["imb -h", "imb -help", "imb --help"] {
        let (code, said, errors) = pipebench(folder.path(), help);
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{help}");
        assert!(said.contains("Usage: pipebench imb"), "{help}: {said}");
    }
    std::fs::write(folder.path().join("bad"), "8\n# none\nten\n").expect("written");
    std::fs::write(folder.path().join("select"), "#Bcast\nPong # what\n").expect("written");
    for (words, expected) in [
        ("imb --hosts local:2 Pong", "\"Pong\" is not a benchmark"),
        (
            "imb --hosts local:2 -msglen bad",
            "bad:3: \"ten\" is not a length",
        ),
        (
            "imb --hosts local:2 -input select",
            "select:2: \"Pong\" is not a benchmark",
        ),
        (
            "imb --hosts local:1 PingPong",
            "1 rank is too few for these benchmarks (add a host, or use --ranks-per-node 2)",
        ),
        (
            "imb --hosts local:2 --transport shm",
            "--transport shm: no two ranks are on one node",
        ),
        (
            "imb --hosts local:2 -map 3x2",
            "--map 3x2: 6 places for 2 ranks",
        ),
        ("imb", "no hosts"),
    ] {
        let (code, said, errors) = pipebench(folder.path(), words);
        assert_eq!((code, said.as_str()), (Some(2), ""), "{words}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        if expected != "no hosts" {
            assert!(
                errors.starts_with(&format!("pipebench: {expected}")),
                "{errors}"
            );
        }
    }
    let (code, said, _) = pipebench(
        folder.path(),
        "imb --hosts local:4 --dry-run -npmin 4 Bcast",
    );
    assert_eq!(code, Some(0));
    assert!(
        said.contains("table      Bcast, 1 x 4 ranks, 24 lengths\n"),
        "{said}"
    );
    let (code, said, errors) = pipebench(
        folder.path(),
        "imb --hosts local:2 Alltoall -mem 0.001 -iter 2,1 -msglog 15:20",
    );
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        said.contains("       524288 out-of-mem.; needed X=   0.002 GB; limit 0.001 GB (-mem)\n"),
        "{said}"
    );
}
