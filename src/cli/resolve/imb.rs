//! Turns the arguments of `pipebench imb` into a request.

use std::path::PathBuf;

use crate::plan::imb::{Asked, Imb, MOST_LOG, MOST_WINDOW, Multi, Rules, WINDOW};
use crate::plan::job::RANKS;
use crate::plan::ranks::Ranks;
use crate::plan::{Transport, Work};

use super::benchmarks::{benchmarks, length, lengths_of};
use super::error::{UsageError, refuse};
use super::spec::{Outline, RunSpec, Shared};
use super::values::Options;
use crate::cli::args::imb::ImbArguments;
use crate::cli::args::{Choice, RankTransport};

/// Most repetitions that can be requested.
const MOST_REPETITIONS: usize = 1_000_000_000;

/// Turns arguments into a request.
pub(crate) fn parse(words: &ImbArguments) -> Result<RunSpec, UsageError> {
    let mut outline = Outline::of(Shared {
        hosts: &words.hosts,
        sockets: &words.sockets,
        launch: &words.launch,
        results: &words.results,
        order: None,
    })?;
    let nodes = outline.nodes.len();
    let transport = match words.transport {
        // Shared memory has the highest throughput within a node; between nodes it means TCP.
        RankTransport(Transport::Auto) => Transport::Shm,
        RankTransport(asked) => asked,
    };
    if words.transport == RankTransport(Transport::Shm)
        && nodes > 1
        && words.ranks.ranks_per_node == 1
    {
        return refuse("--transport shm: no two ranks are on one node (add --ranks-per-node 2)");
    }
    let ranks = outline.ranks(&words.ranks, transport, "--transport")?;
    let count = ranks.count(nodes);
    let imb = suite(words, ranks, count)?;
    if imb.tables(count).is_empty() {
        let ranks = match count {
            1 => "1 rank is".to_owned(),
            _ => format!("{count} ranks are"),
        };
        return refuse(format!(
            "{ranks} too few for these benchmarks (add a host, or use --ranks-per-node 2)"
        ));
    }
    if words.map.is_some() && words.results.keep_going.is_some() {
        return refuse("--map gives every rank a place: leave out --keep-going");
    }
    outline.keep_going &= words.map.is_none();
    let notes = outline.slots_note().into_iter();
    let mut pairs = outline.nodes.windows(2);
    let has_hosts = pairs.any(|pair| pair[0].host != pair[1].host);
    let near = near_note(&imb, nodes).filter(|_| has_hosts);
    let notes = notes.chain(near).collect();
    Ok(RunSpec {
        notes,
        ..outline.spec(Work::Imb(imb), options(words, count))
    })
}

/// Says that benchmarks of two ranks do not leave a host, if there are such benchmarks although there are several hosts.
fn near_note(imb: &Imb, nodes: usize) -> Option<String> {
    let count = imb.ranks.count(nodes);
    let node = |rank: &usize| imb.ranks.node_of(*rank, nodes);
    let is_near = |group: &Vec<usize>| group.iter().map(node).all(|one| one == node(&group[0]));
    let mut tables = imb.tables(count).into_iter();
    let near = tables.find(|table| {
        let is_of_two = imb.series(table.benchmark, count) == [2];
        is_of_two && nodes > 1 && table.groups.iter().all(is_near)
    });
    let name = near?.benchmark.name();
    Some(format!(
        "{name}: both ranks are on one host (--rank-order round-robin puts them on two)"
    ))
}

/// Default time for a length by the current rules, in seconds.
const USUAL_SECONDS: f64 = 10.0;

fn suite(words: &ImbArguments, ranks: Ranks, count: usize) -> Result<Imb, UsageError> {
    if !(1..=*RANKS.end()).contains(&count) {
        return refuse(format!("{count} ranks: from 1 to {}", RANKS.end()));
    }
    let rules = words.rules;
    let counts = words.iter.as_deref().map(iterations).transpose()?;
    let counts = counts.unwrap_or_default();
    if let Some(s) = words.cpu_time
        && !(s.is_finite() && s > 0.0 && s <= 60.0)
    {
        return refuse(format!(
            "--cpu-time {s}: more than 0 and at most 60 seconds"
        ));
    }
    if !words.io_path.is_absolute() {
        let path = words.io_path.display();
        return refuse(format!(
            "--io-path {path}: write an absolute path, such as /scratch"
        ));
    }
    let seconds = words.time.unwrap_or(USUAL_SECONDS);
    if !(seconds.is_finite() && seconds > 0.0) {
        return refuse(format!("--time {seconds}: more than 0 seconds"));
    }
    if words.time.is_some() && rules == Rules::Guide {
        return refuse("--time: the guide's rules have no time limit (use --rules current)");
    }
    if !(1..=MOST_WINDOW).contains(&words.window_size) {
        return refuse(format!(
            "--window-size {}: from 1 to {MOST_WINDOW}",
            words.window_size
        ));
    }
    if words.npmin == Some(0) {
        return refuse("--npmin 0: at least 1");
    }
    let benchmarks = benchmarks(words, rules)?;
    let map = words.map.as_deref().map(|map| map_of(map, count));
    let algorithm = words.algorithm;
    if let Some(algorithm) = algorithm
        && !benchmarks.iter().any(|one| one.has(algorithm))
    {
        return refuse(format!(
            "--algorithm {}: none of these benchmarks has this algorithm",
            algorithm.name()
        ));
    }
    if !(words.mem.is_finite() && words.mem > 0.0 && words.mem <= 4096.0) {
        let gb = words.mem;
        return refuse(format!("--mem {gb}: more than 0 and at most 4096 GB"));
    }
    Ok(Imb {
        ranks,
        benchmarks,
        rules,
        least: words.npmin,
        multi: match words.multi {
            None => None,
            Some(0) => Some(Multi::Worst),
            Some(1) => Some(Multi::Each),
            Some(other) => return refuse(format!("--multi {other}: 0 or 1")),
        },
        map: map.transpose()?,
        lengths: match (&words.msglen, &words.msgsize[..]) {
            (Some(path), _) => Some(lengths_of(path)?),
            (None, []) => None,
            (None, own) => {
                let own = own.iter().map(|text| length("--msgsize", text));
                Some(own.collect::<Result<_, _>>()?)
            }
        },
        logs: words.msglog.as_deref().map(logs).transpose()?,
        counts,
        path: words.io_path.clone(),
        computes_s: words.cpu_time,
        window: words.window_size,
        seconds,
        algorithm,
        check: words.check,
        memory: usize::try_from(numbers::whole(words.mem * f64::from(1 << 30)))
            .unwrap_or(usize::MAX),
    })
}

fn map_of(text: &str, ranks: usize) -> Result<(usize, usize), UsageError> {
    let parts = text.split_once(['x', 'X']);
    let numbers = parts.and_then(|(rows, columns)| {
        Some((rows.parse::<usize>().ok()?, columns.parse::<usize>().ok()?))
    });
    match numbers {
        Some((rows, columns)) if rows.checked_mul(columns) == Some(ranks) => Ok((rows, columns)),
        Some((rows, columns)) => refuse(format!(
            "--map {rows}x{columns}: {} places for {ranks} ranks",
            rows.saturating_mul(columns)
        )),
        None => refuse(format!("--map {text:?}: write PxQ, such as 4x2")),
    }
}

fn logs(text: &str) -> Result<(u32, u32), UsageError> {
    let (least, largest) = text.split_once(':').unwrap_or(("0", text));
    match (least.parse::<u32>(), largest.parse::<u32>()) {
        (Ok(least), Ok(largest)) if least <= largest && largest as usize <= MOST_LOG => {
            Ok((least, largest))
        }
        _ => refuse(format!(
            "--msglog {text:?}: write MIN:MAX, both from 0 to {MOST_LOG}"
        )),
    }
}

/// Parses the most repetitions, the most MiB, and the most repetitions if each one completes separately. Missing numbers keep the defaults.
fn iterations(text: &str) -> Result<Asked, UsageError> {
    let numbers: Vec<Option<usize>> = text.split(',').map(|part| part.parse().ok()).collect();
    let limits = [1..=MOST_REPETITIONS, 1..=1_000_000, 1..=MOST_REPETITIONS];
    let possible = numbers
        .iter()
        .zip(limits)
        .all(|(number, limits)| number.is_some_and(|number| limits.contains(&number)));
    if !possible || numbers.len() > 3 {
        return refuse(format!(
            "--iter {text:?}: write N, N,MIB or N,MIB,SINGLE, such as 1000,40,100"
        ));
    }
    let number = |place: usize| numbers.get(place).copied().flatten();
    Ok(Asked {
        repetitions: number(0),
        volume: number(1).map(|mib| mib << 20),
        single: number(2),
    })
}

fn options(words: &ImbArguments, ranks: usize) -> Options {
    let mut all = Options::of("imb");
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let seconds = words.time.unwrap_or(USUAL_SECONDS);
    all.set("ranks", ranks);
    all.set("transport", words.transport.word());
    all.set("rules", words.rules.word());
    let by_name = !words.benchmarks.is_empty() || words.input.is_some();
    all.given("part", (!by_name).then(|| words.part.word()));
    let list = |names: &[String]| (!names.is_empty()).then(|| names.join(","));
    all.given("include", list(&words.include));
    all.given("exclude-benchmarks", list(&words.exclude_benchmarks));
    all.given("npmin", words.npmin);
    all.given("multi", words.multi);
    all.given("map", words.map.as_ref());
    all.given("msglen", path(&words.msglen));
    all.given("msgsize", list(&words.msgsize));
    let has_list = words.msglen.is_some() || !words.msgsize.is_empty();
    let logs = words.msglog.as_ref().filter(|_| !has_list);
    all.given("msglog", logs);
    all.given("iter", words.iter.as_ref());
    let window = Some(words.window_size).filter(|window| *window != WINDOW);
    all.given("window-size", window);
    all.set("io-path", words.io_path.display());
    all.given("cpu-time", words.cpu_time);
    all.given("time", (words.rules == Rules::Current).then_some(seconds));
    all.set("mem", words.mem);
    all.flag("check", words.check);
    all.given("algorithm", words.algorithm.map(Choice::word));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::collective::Algorithm;
    use crate::plan::imb::{Benchmark, Part};
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        imb: ImbArguments,
    }

    fn understood(words: &str) -> Result<Imb, String> {
        let all = ["imb", "--hosts", "local:4"].into_iter();
        let words = Words::try_parse_from(all.chain(words.split_whitespace())).unwrap();
        let spec = parse(&words.imb).map_err(|error| error.to_string())?;
        match spec.plan.work {
            Work::Imb(imb) => Ok(imb),
            _ => Err("no patterns".to_owned()),
        }
    }

    #[test]
    fn words_mean_what_the_suite_means_by_them() {
        let imb =
            understood("pingping ALLREDUCE,multi-bcast pingping --map 2x2 --multi 0").unwrap();
        assert_eq!(
            imb.benchmarks,
            [Benchmark::PingPing, Benchmark::Allreduce, Benchmark::Bcast]
        );
        assert_eq!((imb.map, imb.multi), (Some((2, 2)), Some(Multi::Worst)));
        assert_eq!(imb.counts(Part::Mpi1).volume, 40 << 20);
        let imb = understood("--rules current --iter 10,1 --msglog 3:5 --algorithm ring").unwrap();
        assert_eq!(imb.benchmarks.len(), 18);
        assert_eq!(
            (imb.counts.repetitions, imb.counts.volume, imb.logs),
            (Some(10), Some(1 << 20), Some((3, 5)))
        );
        assert_eq!(imb.algorithm, Some(Algorithm::Ring));
        assert_eq!(understood("").unwrap().benchmarks.len(), 13);
        let imb = understood("--part ext --iter 10,1,5").unwrap();
        assert_eq!((imb.benchmarks.len(), imb.counts(Part::Ext).single), (6, 5));
        let imb = understood("--part io --iter 20 --cpu-time 0.5").unwrap();
        let files = imb.counts(Part::Io);
        assert_eq!(
            (files.repetitions, files.single, files.volume),
            (20, 10, 16 << 20)
        );
        assert_eq!((imb.benchmarks.len(), imb.computes_s()), (37, 0.5));
        assert_eq!(imb.ranks.transport, Transport::Shm);
        let imb = understood("--msgsize 0,4k,1M --window-size 64 Uniband").unwrap();
        assert_eq!(imb.lengths, Some(vec![0, 4096, 1 << 20]));
        assert_eq!(imb.window, 64);
    }

    #[test]
    fn included_benchmarks_come_first_and_excluded_ones_not_at_all() {
        let names = |words: &str| -> Vec<&str> {
            let imb = understood(words).unwrap();
            imb.benchmarks.iter().map(|one| one.name()).collect()
        };
        let all = names(
            "--include uniband biband --exclude-benchmarks Alltoall,alltoallv --rules current",
        );
        assert_eq!(all[..3], ["Uniband", "Biband", "PingPong"]);
        assert_eq!(all.len(), 2 + 18 - 2);
        assert_eq!(
            names("PingPong Barrier --include Biband --exclude-benchmarks PingPong"),
            ["Biband", "Barrier"]
        );
        let today = names("--part ext --rules current");
        assert_eq!(today[1..3], ["Unidir_Get", "Unidir_Put"]);
        assert_eq!(names("--part ext")[1..3], ["Unidir_Put", "Unidir_Get"]);
        assert_eq!(names("p_iwrite_priv"), ["P_IWrite_Priv"]);
    }

    /// Symptom: the part was among the options of a run that named its benchmarks.
    #[test]
    fn the_part_is_an_option_of_runs_without_names() {
        let shown = |words: &str| {
            let all = ["imb", "--hosts", "local:4"].into_iter();
            let words = Words::try_parse_from(all.chain(words.split_whitespace())).unwrap();
            parse(&words.imb).unwrap().options
        };
        let has_part = |words| shown(words).iter().any(|(name, _)| name == "part");
        assert!(has_part("--part io") && has_part("--include Biband"));
        assert!(!has_part("P_Write_Indv"));
    }

    #[test]
    fn a_benchmark_of_two_ranks_on_one_host_is_noted() {
        let notes = |words: &str| {
            let all = ["imb", "--hosts", "n1,n2"].into_iter();
            let words = Words::try_parse_from(all.chain(words.split_whitespace())).unwrap();
            parse(&words.imb).unwrap().notes.join("\n")
        };
        let note = notes("PingPong --ranks-per-node 2");
        assert!(
            note.starts_with("PingPong: both ranks are on one host"),
            "{note}"
        );
        assert_eq!(notes("PingPong"), "");
        assert_eq!(notes("Allreduce --ranks-per-node 2"), "");
        let apart = "PingPong --ranks-per-node 2 --rank-order round-robin";
        assert_eq!(notes(apart), "");
    }

    #[test]
    fn slots_of_a_host_file_are_noted_as_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        std::fs::write(&path, "n1 slots=4\nn2 slots=4\n").unwrap();
        let words = Words::try_parse_from(["imb", "--hostfile", &path.display().to_string()]);
        let spec = parse(&words.unwrap().imb).unwrap();
        assert_eq!(spec.notes, ["slots= ignored: use --ranks-per-node"]);
    }

    #[test]
    fn what_makes_no_sense_is_one_line() {
        for (words, expected) in [
            ("Pong", "\"Pong\" is not a benchmark"),
            (
                "PingPongg",
                "\"PingPongg\" is not a benchmark (see 'pipebench imb --help') (did you mean PingPong?)",
            ),
            (
                "IMB-MPI1 PingPong",
                "\"IMB-MPI1\" is a program of the suite: leave out its name",
            ),
            (
                "IMB-IO",
                "\"IMB-IO\" is a program of the suite: write --part io",
            ),
            (
                "Ireduce_scatter_pure",
                "\"Ireduce_scatter_pure\" is a benchmark of IMB-NBC, which pipebench lacks",
            ),
            (
                "AllReduceMT",
                "\"AllReduceMT\" is a benchmark of IMB-MT, which pipebench lacks",
            ),
            (
                "Bcast --include Truly_passive_put",
                "\"Truly_passive_put\" is a benchmark of IMB-RMA, which pipebench lacks",
            ),
            (
                "Stencil2D",
                "\"Stencil2D\" is a benchmark of IMB-P2P, which pipebench lacks",
            ),
            (
                "PingPongAnySource",
                "\"PingPongAnySource\" is PingPong here, whose ranks receive from their partner",
            ),
            ("osu_mbw_mr", "\"osu_mbw_mr\" is Uniband here"),
            ("osu_allreduce", "\"osu_allreduce\" is Allreduce here"),
            (
                "Bcast --exclude-benchmarks bcast",
                "--exclude-benchmarks leaves no benchmark",
            ),
            ("--window-size 0", "--window-size 0: from 1 to 4096"),
            (
                "--msgsize 4,x",
                "--msgsize: \"x\" is not a length (from 0 to 1 GiB)",
            ),
            ("--map 2x3", "--map 2x3: 6 places for 4 ranks"),
            ("--map 4", "--map \"4\": write PxQ"),
            ("--npmin 0", "--npmin 0: at least 1"),
            (
                "--time 2",
                "--time: the guide's rules have no time limit (use --rules current)",
            ),
            (
                "PingPong Barrier --algorithm ring",
                "--algorithm ring: none of these benchmarks has this algorithm",
            ),
            ("--multi 2", "--multi 2: 0 or 1"),
            ("--msglog 5:3", "--msglog \"5:3\": write MIN:MAX"),
            ("--msglog 31", "--msglog \"31\": write MIN:MAX"),
            ("--iter 0", "--iter \"0\": write N, N,MIB or"),
            ("--iter 5,x", "--iter \"5,x\": write N, N,MIB or"),
            ("--iter 5,1,1,1", "--iter \"5,1,1,1\": write N, N,MIB or"),
            ("--io-path here", "--io-path here: write an absolute path"),
            ("--cpu-time 0", "--cpu-time 0: more than 0"),
            (
                "--transport shm",
                "--transport shm: no two ranks are on one node",
            ),
            ("--time 0", "--time 0: more than 0 seconds"),
            ("--mem nan", "--mem NaN: more than 0"),
            (
                "--msglen no.txt",
                "--msglen: cannot read no.txt: no such file",
            ),
            ("--ranks-per-node 0", "--ranks-per-node 0: at least 1"),
        ] {
            let error = understood(words).unwrap_err();
            assert!(error.starts_with(expected), "{words}: {error}");
        }
    }
}
