//! Turns arguments into a run plan. [`checks`] has all checks of options against each other, one sentence each.

use crate::plan::fit::{self, Capacity};
use crate::plan::{
    Acceptance, Bound, Pattern, Pin, Profile, Purpose, Sink, Source, Test, Unasked, Work, Workers,
    sample,
};
use crate::units;

use super::checks;
use super::error::UsageError;
use super::nodes;
use super::profile;
use super::spec::{Outline, RunSpec, Shared};
use super::values::{Options, size, time};
use crate::cli::args::{Choice, PlainArguments};

/// Turns arguments into a request. `here` is this host, which can run nodes. `seed` applies if the arguments give none.
pub(crate) fn parse(
    arguments: &PlainArguments,
    seed: u64,
    here: &Capacity,
) -> Result<RunSpec, UsageError> {
    let mut outline = Outline::of(Shared {
        hosts: &arguments.hosts,
        sockets: &arguments.sockets,
        launch: &arguments.launch,
        results: &arguments.results,
        order: Some(&arguments.order),
    })?;
    let nodes = &outline.nodes;
    let one = test_of(arguments, &outline)?;
    let capacities = nodes::capacities_of(nodes, here);
    let mut notes = Vec::new();
    checks::check(arguments, &one, &outline.hosts)?;
    let profile = arguments.profile;
    let is_sampled = profile == Profile::Acceptance && nodes.len() > sample::MOST_WITH_ALL;
    let seed = arguments
        .seed
        .unwrap_or(if is_sampled { sample::SEED } else { seed });
    let (mut tests, shortened) = profile::tests_of(arguments, profile, &one, nodes, seed)?;
    for test in &mut tests {
        checks::check_pattern(test, nodes.len())?;
        notes.extend(fit::settle(test, nodes.len(), &capacities));
    }
    checks::check_files(&tests)?;
    let open = tests.iter().any(|test| fit::is_open(test, &capacities));
    // An acceptance covers one switch, whose ports must all carry their full rate at once.
    outline.criteria.non_blocking |= profile == Profile::Acceptance;
    outline.keep_going &= !checks::is_in_order(&one);
    outline.deadlines.run_ms = max_time(arguments)?;
    outline.seed = seed;
    let options = options(arguments, &outline, &tests[0]);
    let work = Work::Acceptance(Acceptance {
        tests,
        profile,
        shortened,
        samples: arguments.samples.is_some(),
        repeats: None,
    });
    let is_alone = outline.nodes.len() == 1;
    let alone = is_alone.then(|| "one node: nothing is judged".to_owned());
    Ok(RunSpec {
        notes: notes.into_iter().take(1).chain(alone).collect(),
        open,
        hold: arguments.hold,
        ..outline.spec(work, options)
    })
}

fn test_of(arguments: &PlainArguments, outline: &Outline<'_>) -> Result<Test, UsageError> {
    let rails = nodes::rails_of(&arguments.sockets, &outline.nodes)?;
    let block_bytes = match &arguments.block_size {
        Some(text) => size("--block-size", text)?,
        None => 256 << 10, // Settled when the nodes are known.
    };
    Ok(Test {
        pattern: Pattern::AllToAll, // A placeholder: set once the nodes are known.
        phases: arguments.phases,
        streams: arguments.streams.unwrap_or(1).saturating_mul(rails),
        rails,
        block_bytes,
        coupling: arguments.coupling,
        bound: bound_of(arguments)?,
        transport: arguments.transport,
        sockets: outline.sockets.clone(),
        ports: outline.ports,
        network: outline.network.clone(),
        source: match arguments.source.as_str() {
            "memory" => Source::Memory,
            file => Source::File(file.to_owned()),
        },
        sink: match arguments.sink.as_str() {
            "memory" => Sink::Memory,
            "discard" => Sink::Discard,
            file => Sink::File(file.to_owned()),
        },
        verify: arguments.verify,
        purpose: Purpose::Load,
        paces: Vec::new(),
        huge: arguments.huge,
        // `auto` is settled when the nodes are known.
        workers: arguments.workers.0.unwrap_or(Workers::Peer),
        unasked: Unasked {
            workers: arguments.workers.0.is_none(),
            block: arguments.block_size.is_none(),
            streams: arguments.streams.is_none(),
            socket_buffers: arguments.sockets.sndbuf.is_none()
                && arguments.sockets.rcvbuf.is_none(),
            congestion: arguments.sockets.congestion.is_none(),
            datapath: arguments.datapath.0.is_none(),
        },
        datapath: arguments.datapath.0.unwrap_or_default(),
        pin: match arguments.pin.as_str() {
            "auto" => Pin::Auto,
            "none" => Pin::None,
            list => Pin::List(processors(list)?),
        },
    })
}

fn processors(text: &str) -> Result<Vec<usize>, UsageError> {
    match units::parse_list(text) {
        Some(list) if !list.is_empty() => Ok(list),
        _ => Err(UsageError::Value(format!(
            "--pin {text:?} is not understood (write auto, none or processors: 0-3,8)"
        ))),
    }
}

fn bound_of(arguments: &PlainArguments) -> Result<Bound, UsageError> {
    if let Some(buffers) = arguments.buffers {
        return Ok(Bound::Volume { buffers });
    }
    if arguments.source != "memory" {
        return Ok(Bound::Files);
    }
    Ok(Bound::Time {
        warmup_ns: time("--warmup", arguments.warmup.as_deref().unwrap_or("1s"))?,
        window_ns: time("--time", arguments.time.as_deref().unwrap_or("10s"))?,
    })
}

/// Time limit for all tests together in milliseconds, if given.
fn max_time(arguments: &PlainArguments) -> Result<Option<u64>, UsageError> {
    /// Time of a run of the shortest test.
    const LEAST_MS: u64 = 1_000;
    let Some(text) = &arguments.max_time else {
        return Ok(None);
    };
    match time("--max-time", text)? / 1_000_000 {
        ms if ms < LEAST_MS => Err(UsageError::Value(format!("--max-time {text}: at least 1s"))),
        ms => Ok(Some(ms)),
    }
}

fn options(arguments: &PlainArguments, outline: &Outline<'_>, test: &Test) -> Options {
    let mut all = Options::of("");
    let shown = |ns: u64| units::show_ns(ns).replace(' ', "");
    all.set("nodes", outline.nodes.len());
    all.set("profile", arguments.profile.word());
    // The other profiles have their own patterns, and refuse --pattern, but an acceptance takes `rotate`.
    all.set(
        "pattern",
        match arguments.profile {
            Profile::Acceptance if arguments.pattern == "all-to-all" => "of the profile",
            Profile::Quick | Profile::Acceptance => arguments.pattern.as_str(),
            Profile::Soak => "of the profile",
        },
    );
    all.set("phases", test.phases);
    all.set("streams", test.streams / test.rails);
    for (name, value) in fit::options(test) {
        all.set(name, value);
    }
    all.set("coupling", arguments.coupling.word());
    all.set("transport", arguments.transport.word());
    match test.bound {
        Bound::Time {
            warmup_ns,
            window_ns,
        } => {
            all.set("warmup", shown(warmup_ns));
            all.set("time", shown(window_ns));
        }
        Bound::Volume { buffers } => all.set("buffers", buffers),
        Bound::Files => {}
    }
    all.set("source", &arguments.source);
    all.set("sink", &arguments.sink);
    all.set("verify", arguments.verify.word());
    all.set("datapath", arguments.datapath.word());
    all.set("pin", &arguments.pin);
    all.given("rails", (test.rails > 1).then_some(test.rails));
    all.flag("huge", arguments.huge);
    all.given("max-time", arguments.max_time.as_ref());
    all.set("seed", outline.seed);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Arguments;
    use crate::cli::mistakes::first_sentence;
    use clap::Parser;

    fn spec(words: &str) -> Result<RunSpec, String> {
        let all = std::iter::once("pipebench").chain(words.split_whitespace());
        let arguments = Arguments::try_parse_from(all).map_err(|error| first_sentence(&error))?;
        parse(&arguments.plain, 1, &two_processors(8 << 30)).map_err(|error| error.to_string())
    }

    fn two_processors(memory_bytes: u64) -> Capacity {
        Capacity {
            name: "here".to_owned(),
            nodes: 0,
            processors: Some(2),
            memory_bytes: Some(memory_bytes),
            ..Capacity::default()
        }
    }

    #[test]
    fn a_plain_command_is_a_plan_of_one_test() {
        let spec =
            spec("--hosts n1,n2,n1 --phases 3 --block-size 1M --time 30s --rate 2.5G").unwrap();
        let labels: Vec<&str> = spec
            .plan
            .nodes
            .iter()
            .map(|node| node.label.as_str())
            .collect();
        assert_eq!(labels, ["n1#1", "n2", "n1#2"]);
        let test = &spec.plan.tests()[0];
        assert_eq!(
            (test.phases, test.streams, test.block_bytes),
            (3, 1, 1 << 20)
        );
        assert_eq!(
            test.bound,
            Bound::Time {
                warmup_ns: 1_000_000_000,
                window_ns: 30_000_000_000
            }
        );
        assert_eq!(test.sockets.rate_bits_per_s, Some(2_500_000_000));
        assert_eq!(spec.options[1], ("nodes".to_owned(), "3".to_owned()));
    }

    #[test]
    fn many_nodes_on_a_host_have_smaller_blocks_and_fewer_processes() {
        let shape = |words: &str| {
            let test = spec(words).unwrap().plan.tests()[0].clone();
            let buffers = test.sockets.send_buffer_bytes.map(|bytes| bytes >> 10);
            (test.block_bytes >> 10, test.workers, buffers)
        };
        let small = Some(64);
        assert_eq!(
            shape("--hosts local:64 --phases 3"),
            (128, Workers::Shared, small)
        );
        let asked = "--hosts local:64 --phases 3 --block-size 1M --workers peer --rcvbuf 4M";
        assert_eq!(shape(asked), (1024, Workers::Peer, None));
        let note = spec("--hosts local:64 --phases 3").unwrap().notes.concat();
        assert!(
            note.starts_with("blocks of 128 KiB instead of 256 KiB, "),
            "{note}"
        );
        assert!(
            note.ends_with("buffers of 64 nodes on here below 1.5 GiB"),
            "{note}"
        );
        assert!(spec("--hosts local:3").unwrap().notes.is_empty());
        let alone = spec("--hosts n1").unwrap().notes;
        assert_eq!(alone, ["one node: nothing is judged"]);
        assert!(!spec("--hosts local:3").unwrap().open);
        assert!(spec("--hosts local,n2").unwrap().open, "n2 was not asked");
    }

    #[test]
    fn what_was_settled_stands_among_the_options() {
        let options = spec("--hosts local:64 --phases 3").unwrap().options;
        let value = |name: &str| {
            let mut all = options.iter().filter(|(known, _)| known == name);
            let value = all.next().map(|(_, value)| value.as_str());
            assert_eq!(all.next(), None, "{name} stands there once");
            value
        };
        assert_eq!(value("block-size"), Some("128KiB"));
        assert_eq!(value("workers"), Some("shared"));
        assert_eq!(value("sndbuf"), Some("64KiB"));
        assert_eq!(value("rcvbuf"), Some("64KiB"));
    }

    #[test]
    fn every_refusal_is_one_sentence_with_the_flag() {
        let cases = [
            ("--phases 3", "no hosts"),
            ("--hosts n1 -x n1", "no hosts are left after --exclude"),
            ("--hosts n1 --phases 1", "--phases 1: at least 2"),
            (
                "--hosts n1 -p 5201",
                "at most 32; ports are --port-range 5201-5210",
            ),
            ("--hosts n1 --streams 0", "--streams 0"),
            (
                "--hosts n1,n2 --pattern alltoall",
                "no such file or directory (did you mean all-to-all?)",
            ),
            (
                "--hosts n1 --block-size 3parsecs",
                "--block-size: size \"3parsecs\" is not understood",
            ),
            ("--hosts n1 --block-size 1", "--block-size 1: from 64 bytes"),
            ("--hosts n1 --time soon", "--time: time \"soon\""),
            ("--hosts n1 --time 1us", "--time: at least 10ms"),
            ("--hosts n1 --buffers 0", "--buffers 0"),
            (
                "--hosts n1,n2 --transport unix",
                "--transport unix needs all nodes on one machine",
            ),
            (
                "--hosts local:2 --transport unix --port-range 1-2",
                "--port-range has no meaning",
            ),
            (
                "--hosts n1 --port-range 9-1",
                "--port-range \"9-1\" is not understood",
            ),
            (
                "--hosts n1 --data-network 10.0.0.0/33",
                "--data-network \"10.0.0.0/33\"",
            ),
            ("--hosts n1 --dscp 64", "--dscp: from 0 to 63"),
            ("--hosts n1 --mss 10", "--mss: from 88"),
            ("--hosts n1 --rate fast", "--rate: rate \"fast\""),
            ("--hosts n1 --rate 1", "--rate: 1: 1 bit/s? (write 1G"),
            (
                "--hosts n1 --link-speed 25000",
                "25000: 25000 bit/s? (write 25000M or 25G, or",
            ),
            ("--hosts n1 --rate 1bit/s", "--rate: at least 8"),
            (
                "--hosts n1 --floor peer",
                "--floor peer: from 1 to 100 percent, or peers",
            ),
            (
                "--hosts n1 --floor 1",
                "--floor 1: 1 percent? (write 90, or 1% if you mean that)",
            ),
            (
                "--hosts n1 --floor 0.9",
                "--floor 0.9: from 1 to 100 percent, or peers",
            ),
            (
                "--hosts n1 --rate 1M --block-size 1M",
                "--rate 1M: less than one block of 1M per second",
            ),
            ("--hosts n1 --pin 3-1", "--pin \"3-1\" is not understood"),
            (
                "--hosts n1 --source f --time 5s",
                "--source f: the run is as long as the longest file",
            ),
            (
                "--hosts n1 --source f --buffers 5",
                "--source f: the run is as long",
            ),
            (
                "--hosts n1 --sink discard --verify full",
                "--sink discard never reads the payload",
            ),
            (
                "--hosts n1 --sink discard --coupling buffer",
                "--sink discard and --coupling buffer",
            ),
            ("--hosts n1 --fanout 0", "--fanout 0"),
            ("--hosts n1 --rsh srun", "--rsh: srun needs -w %h"),
            ("--hosts n1 --rsh /bin/srun", "--rsh: srun needs -w %h"),
            (
                "--hosts n1 --csv - --json -",
                "cannot both go to standard output",
            ),
            ("--hosts n1 --deadline lunch=1h", "--deadline \"lunch=1h\""),
            (
                "--hosts n2,local --transport unix",
                "--transport unix needs all nodes",
            ),
            (
                "--hosts n1 --deadline silence=1s",
                "--deadline silence: at least 3s",
            ),
            ("--hosts n1 --deadline connect=0", "at least 1 ms"),
            (
                "--hosts n1 --hold lunch",
                "invalid value 'lunch' for '--hold <STAGE>'",
            ),
            ("--hosts n[1- --phases 2", "--hosts: "),
            (
                "--hostfile /no/such",
                "cannot read /no/such: no such file or directory",
            ),
        ];
        for (words, expected) in cases {
            let error = spec(words).expect_err(words);
            assert!(error.contains(expected), "{words}: {error}");
            assert_eq!(error.lines().count(), 1, "{words}: {error}");
        }
    }

    #[test]
    fn a_rate_above_the_speed_that_was_ordered_is_refused() {
        let error = |words: &str| {
            let arguments =
                Arguments::try_parse_from(std::iter::once("pipebench").chain(words.split(' ')));
            let arguments = arguments.expect("understood");
            let spec = parse(&arguments.plain, 1, &two_processors(1 << 30));
            spec.err().map(|error| error.to_string())
        };
        assert_eq!(
            error("--hosts n1,n2 --link-speed 25G --min-rate 25G").as_deref(),
            Some(
                "--min-rate 25G: above the payload ceiling of the port of n1, specified with 25.00 Gbit/s on the wire (give less, or use --floor)"
            )
        );
        assert_eq!(error("--hosts n1,n2 --link-speed 25G --min-rate 24G"), None);
        assert_eq!(error("--hosts n1,n2 --min-rate 100G"), None);
    }

    /// The links of a pair have a limit, even if a mesh of as many hosts would need more.
    #[test]
    fn permutations_of_large_runs_stay_within_what_a_pair_may_have() {
        let networks: Vec<String> = (0..8).map(|rail| format!("10.{rail}.0.0/16")).collect();
        let rails = format!("--hosts n[1-34] --data-network {}", networks.join(","));
        let cases = [
            ("--hosts n[1-256]", 255),
            ("--hosts n[1-300]", 256),
            ("--hosts n[1-64] --streams 5", 256),
            (rails.as_str(), 256),
        ];
        for (words, most) in cases {
            let spec = spec(&format!("{words} --profile acceptance")).expect(words);
            let streams = spec.plan.tests().iter().map(|test| test.streams);
            assert_eq!(streams.clone().max(), Some(most), "{words}");
            for test in spec.plan.tests() {
                assert!(crate::plan::STREAMS.contains(&test.streams), "{words}");
                assert_eq!(test.streams % test.rails, 0, "{words}");
            }
        }
    }

    /// Symptom: an acceptance of 1,000 hosts was 2,001 tests, 12 hours, and 4,096 hosts had no plan after a minute.
    #[test]
    fn an_acceptance_of_many_hosts_runs_a_sample_unless_all_permutations_are_asked_for() {
        let plan = |words: &str| spec(&format!("{words} --profile acceptance")).unwrap().plan;
        let count = |words: &str| plan(words).tests().len();
        assert_eq!(count("--hosts n[1-64]"), 2 * 63 + 3);
        assert_eq!(count("--hosts n[1-1000]"), 2 * (1 + 9) + 3);
        assert_eq!(count("--hosts n[1-4096]"), 2 * (1 + 12) + 3);
        assert_eq!(count("--hosts n[1-100] --pattern rotate"), 2 * 99 + 3);
        let tests = |words: &str| plan(words).tests().to_vec();
        let own = tests("--hosts n[1-100]");
        // A resumed run must find the tests of the aborted one, although each run has another seed of its payload.
        assert_eq!(own, tests("--hosts n[1-100] --seed 1"));
        assert_ne!(own, tests("--hosts n[1-100] --seed 2"));
        let refused = spec("--hosts n[1-100] --profile soak --pattern rotate").unwrap_err();
        assert!(refused.contains("has its own patterns"), "{refused}");
    }

    #[test]
    fn a_host_file_says_what_was_ordered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        std::fs::write(
            &path,
            "# rack 1\nn1 data=10.1.0.1 speed=25G mtu=9000 switchport=Eth1/1\nn2 nodes=2 group=a\n",
        )
        .unwrap();
        let spec = spec(&format!("--hostfile {}", path.display())).unwrap();
        assert_eq!(spec.plan.nodes.len(), 3);
        assert_eq!(spec.plan.nodes[0].speed_bits_per_s, Some(25_000_000_000));
        assert_eq!(spec.plan.nodes[0].mtu_bytes, Some(9000));
        assert_eq!(spec.plan.nodes[1].mtu_bytes, None);
        assert_eq!(spec.plan.nodes[0].switch_port.as_deref(), Some("Eth1/1"));
        assert_eq!(spec.plan.nodes[2].label, "n2#2");
        let refused = [
            ("n1 data=here", "data=here is not an address"),
            (
                "n1 mtu=jumbo",
                "host n1: mtu=jumbo: write a number of bytes from 576 to 65535",
            ),
            (
                "n1 mtu=65536",
                "host n1: mtu=65536: write a number of bytes from 576 to 65535",
            ),
            (
                "n1 speed=25G\nn1 speed=10G",
                "host n1: two lines for one port differ in speed= (lines for two ports need data=)",
            ),
        ];
        for (line, expected) in refused {
            std::fs::write(&path, format!("{line}\n")).unwrap();
            let arguments =
                Arguments::try_parse_from(["pipebench", "--hostfile", &path.display().to_string()]);
            let error = parse(&arguments.unwrap().plain, 1, &two_processors(1 << 30))
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
