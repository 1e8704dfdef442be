//! Turns the arguments of `pipebench linktest` into a request.

use crate::plan::Transport;
use crate::plan::job::{BUFFERS, MESSAGE_BYTES, MESSAGES, MOST_ROUNDS, RANKS};
use crate::plan::linktest::{Kernel, Linktest};
use crate::plan::ranks::Ranks;
use crate::plan::{RunPlan, Work};
use crate::units;

use super::checks;
use super::criteria;
use super::error::UsageError;
use super::launch;
use super::nodes;
use super::sockets;
use super::spec::RunSpec;
use crate::cli::args::linktest::LinktestArguments;
use crate::cli::args::{Choice, Mode};

/// Turns arguments into a request.
pub(crate) fn parse(arguments: &LinktestArguments) -> Result<RunSpec, UsageError> {
    let hosts = nodes::hosts_of(
        arguments.hosts.list.as_deref(),
        arguments.hosts.file.as_deref(),
        arguments.hosts.exclude.as_deref(),
        arguments.launch.rsh.is_some(),
    )?;
    let mut nodes = nodes::nodes_of(&hosts)?;
    let criteria = criteria::criteria_of(&arguments.order, &mut nodes)?;
    checks::check_launch(&arguments.launch)?;
    let refuse = |text: String| Err(UsageError::Value(text));
    let mut notes = Vec::new();
    let transport = match arguments.mode {
        Mode::Own(transport) => transport,
        Mode::Other(other) => {
            notes.push(format!(
                "--mode {other}: messages go over sockets here, TCP between nodes and Unix-domain sockets within a node"
            ));
            Transport::Auto
        }
    };
    if arguments.use_gpu_memory {
        return refuse("--use-gpu-memory: messages go from and to the memory of hosts".to_owned());
    }
    if !transport.crosses_hosts() && !checks::is_one_machine(&hosts) {
        return refuse(
            "--mode unix needs all nodes on one machine (try --hosts local:3)".to_owned(),
        );
    }
    let message_bytes = units::parse_bytes(&arguments.size_messages)
        .map_err(|error| UsageError::Unit("--size-messages", error))?;
    let message_bytes = usize::try_from(message_bytes).unwrap_or(usize::MAX);
    let sockets = sockets::sockets_of(&arguments.sockets)?;
    checks::check_sockets(&sockets)?;
    if arguments.parallel_sion_file {
        notes.push(
            "--parallel-sion-file: the launching side writes the file, in one piece".to_owned(),
        );
    }
    let buffers = match (arguments.multi_buffer, arguments.num_multi_buffer) {
        (true, 0) => 2,
        (_, 0) => 1,
        (_, count) => count,
    };
    if !arguments.min_runtime.is_finite() || arguments.min_runtime < 0.0 {
        return refuse(format!(
            "--min-runtime {}: 0 seconds or more",
            arguments.min_runtime
        ));
    }
    let linktest = Linktest {
        ranks: Ranks {
            per_node: arguments.ranks.ranks_per_node,
            order: arguments.ranks.rank_order,
            pinned: !arguments.ranks.no_pin,
            wait: arguments.ranks.wait,
            transport,
            sockets,
            ports: sockets::ports_of(&arguments.sockets)?,
            network: sockets::network_of(&arguments.sockets)?,
        },
        kernel: match (arguments.bidirectional, arguments.unidirectional) {
            (true, _) => Kernel::Bidirectional,
            (_, true) => Kernel::Unidirectional,
            _ => Kernel::Semidirectional,
        },
        messages: arguments.num_messages,
        warmups: arguments.num_warmup_messages,
        message_bytes,
        serial: arguments.serial_tests,
        bisection: arguments.bisection,
        all_to_all: arguments.all_to_all,
        step_seed: arguments
            .randomize_steps
            .then_some(arguments.seed_randomize_steps),
        rank_orders: arguments.num_randomize_tasks,
        rank_seed: arguments.seed_randomize_tasks,
        buffers,
        random_contents: arguments.randomize_buffers,
        content_seed: arguments.seed_randomize_buffers,
        check: arguments.check_buffers,
        slowest: arguments.num_slowest,
        min_iterations: arguments.min_iterations.max(1),
        min_runtime_ns: numbers::whole(arguments.min_runtime * 1e9),
    };
    check(&linktest, nodes.len())?;
    let deadlines = launch::deadlines_of(&arguments.launch)?;
    let plan = RunPlan {
        criteria,
        seed: arguments.seed_randomize_buffers,
        keep_going: arguments.results.keep_going,
        ..RunPlan::of(nodes, Work::Linktest(linktest.clone()), deadlines)
    };
    let options = effective(arguments, &plan, &linktest);
    Ok(RunSpec {
        notes,
        ..RunSpec::of(plan, hosts, options)
    })
}

fn check(linktest: &Linktest, nodes: usize) -> Result<(), UsageError> {
    let refuse = |text: String| Err(UsageError::Value(text));
    let ranks = linktest.ranks.count(nodes);
    if linktest.ranks.per_node == 0 {
        return refuse("--ranks-per-node 0: at least 1".to_owned());
    }
    if !RANKS.contains(&ranks) {
        let hint = if ranks < 2 {
            " (another host, or --ranks-per-node 2)"
        } else {
            ""
        };
        return refuse(format!("{ranks} ranks: from 2 to {}{hint}", RANKS.end()));
    }
    if !MESSAGES.contains(&linktest.messages) {
        return refuse(format!(
            "--num-messages {}: from 1 to {}",
            linktest.messages,
            MESSAGES.end()
        ));
    }
    if linktest.warmups > *MESSAGES.end() {
        return refuse(format!(
            "--num-warmup-messages {}: at most {}",
            linktest.warmups,
            MESSAGES.end()
        ));
    }
    if !MESSAGE_BYTES.contains(&linktest.message_bytes) {
        return refuse("--size-messages: from 1 byte to 1 GiB".to_owned());
    }
    for (flag, count) in [
        ("--num-randomize-tasks", linktest.rank_orders),
        ("--min-iterations", linktest.min_iterations),
    ] {
        if count > MOST_ROUNDS {
            return refuse(format!("{flag} {count}: at most {MOST_ROUNDS}"));
        }
    }
    if !BUFFERS.contains(&linktest.buffers) {
        return refuse(format!(
            "--num-multi-buffer {}: at most {}",
            linktest.buffers,
            BUFFERS.end()
        ));
    }
    Ok(())
}

fn effective(
    arguments: &LinktestArguments,
    plan: &RunPlan,
    linktest: &Linktest,
) -> Vec<(String, String)> {
    let yes = |given: bool| given.then(|| "yes".to_owned());
    let list = |words: &[String]| (!words.is_empty()).then(|| words.join(","));
    let sockets = &arguments.sockets;
    let all: Vec<(&str, Option<String>)> = vec![
        (
            "pipebench",
            Some(format!("{} linktest", env!("CARGO_PKG_VERSION"))),
        ),
        (
            "ranks",
            Some(linktest.ranks.count(plan.nodes.len()).to_string()),
        ),
        (
            "ranks-per-node",
            Some(arguments.ranks.ranks_per_node.to_string()),
        ),
        (
            "rank-order",
            Some(arguments.ranks.rank_order.word().to_owned()),
        ),
        ("mode", Some(arguments.mode.word().to_owned())),
        ("kernel", Some(linktest.kernel.name().to_owned())),
        ("num-messages", Some(linktest.messages.to_string())),
        ("size-messages", Some(linktest.message_bytes.to_string())),
        ("num-warmup-messages", Some(linktest.warmups.to_string())),
        ("num-slowest", Some(linktest.slowest.to_string())),
        ("bisection", yes(linktest.bisection)),
        ("serial-tests", yes(linktest.serial)),
        ("all-to-all", yes(linktest.all_to_all)),
        (
            "seed-randomize-steps",
            linktest.step_seed.map(|seed| seed.to_string()),
        ),
        (
            "num-randomize-tasks",
            (linktest.rank_orders > 0).then(|| linktest.rank_orders.to_string()),
        ),
        (
            "seed-randomize-tasks",
            (linktest.rank_orders > 0).then(|| linktest.rank_seed.to_string()),
        ),
        (
            "num-multi-buffer",
            (linktest.buffers > 1).then(|| linktest.buffers.to_string()),
        ),
        (
            "seed-randomize-buffers",
            linktest
                .random_contents
                .then(|| linktest.content_seed.to_string()),
        ),
        ("check-buffers", yes(linktest.check)),
        (
            "min-iterations",
            (linktest.min_iterations > 1).then(|| linktest.min_iterations.to_string()),
        ),
        (
            "min-runtime",
            (arguments.min_runtime > 0.0).then(|| format!("{}s", arguments.min_runtime)),
        ),
        ("no-pin", yes(arguments.ranks.no_pin)),
        (
            "congestion",
            Some(
                sockets
                    .congestion
                    .clone()
                    .unwrap_or_else(|| "system".to_owned()),
            ),
        ),
        ("data-network", list(&sockets.data_network)),
        ("interface", list(&sockets.interface)),
        ("port-range", sockets.port_range.clone()),
        ("link-speed", arguments.order.link_speed.clone()),
        (
            "rsh",
            arguments.launch.rsh.as_ref().map(|rsh| format!("{rsh:?}")),
        ),
    ];
    all.into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        arguments: LinktestArguments,
    }

    fn understood(words: &str) -> Result<RunSpec, String> {
        let all = std::iter::once("linktest").chain(words.split_whitespace());
        let words = Words::try_parse_from(all).map_err(|error| error.to_string())?;
        parse(&words.arguments).map_err(|error| error.to_string())
    }

    fn linktest_of(plan: &RunPlan) -> &Linktest {
        match &plan.work {
            Work::Linktest(linktest) => linktest,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_call_of_an_acceptance_is_read_as_it_stands() {
        let spec = understood(
            "--hosts local:4 --mode mpi --num-warmup-messages 3 --num-messages 25 --size-messages 16777216 --bisection \
             --bidirectional",
        )
        .unwrap();
        let linktest = linktest_of(&spec.plan);
        assert_eq!(
            (linktest.warmups, linktest.messages, linktest.message_bytes),
            (3, 25, 16 << 20)
        );
        assert!(linktest.bisection && linktest.kernel == Kernel::Bidirectional);
        assert_eq!(spec.notes.len(), 1, "{:?}", spec.notes);
        let short = understood("--hosts local:3 -m tcp -w 1 -n 2 -s 4K -o x.sion").unwrap();
        let linktest = linktest_of(&short.plan);
        assert_eq!(linktest.message_bytes, 4096);
        assert_eq!(linktest.ranks.transport, Transport::Tcp);
    }

    #[test]
    fn every_refusal_is_one_sentence_with_the_flag() {
        for (words, expected) in [
            ("", "no hosts"),
            ("--hosts local", "1 ranks: from 2 to 4096 (another host"),
            (
                "--hosts local:2 -m pigeon",
                "invalid value 'pigeon' for '--mode <MODE>'",
            ),
            (
                "--hosts n1,n2 -m unix",
                "--mode unix needs all nodes on one machine",
            ),
            (
                "--hosts local:2 --use-gpu-memory",
                "--use-gpu-memory: messages go",
            ),
            (
                "--hosts local:2 --memory-buffer-allocator pinned",
                "invalid value 'pinned' for '--memory-buffer-allocator <KIND>'",
            ),
            (
                "--hosts local:2 --min-iterations 4294967296",
                "--min-iterations 4294967296: at most 100000",
            ),
            ("--hosts local:2 -n 0", "--num-messages 0: from 1"),
            ("--hosts local:2 -s 0", "--size-messages: from 1 byte"),
            (
                "--hosts local:2 -s 2G",
                "--size-messages: from 1 byte to 1 GiB",
            ),
            (
                "--hosts local:2 -s large",
                "--size-messages: size \"large\"",
            ),
            ("--hosts local:2 --ranks-per-node 0", "--ranks-per-node 0"),
            (
                "--hosts local:2 --num-multi-buffer 5000",
                "--num-multi-buffer 5000",
            ),
            ("--hosts local:2 --min-runtime=-1", "--min-runtime"),
            ("--hosts local:2 --fanout 0", "--fanout 0"),
            ("--hosts local:2 --dscp 64", "--dscp: from 0 to 63"),
            (
                "--hosts local:2 --bidirectional --unidirectional",
                "cannot be used with",
            ),
        ] {
            let error = understood(words).err().unwrap_or_else(|| panic!("{words}"));
            assert!(error.contains(expected), "{words}: {error}");
        }
    }
}
