//! Turns the arguments of `pipebench linktest` into a request.

use crate::plan::job::{BUFFERS, MESSAGE_BYTES, MESSAGES, MOST_ROUNDS, RANKS};
use crate::plan::linktest::{Kernel, Linktest};
use crate::plan::{Transport, Work};

use super::error::{UsageError, refuse};
use super::spec::{Outline, RunSpec, Shared};
use super::values::{Options, size};
use crate::cli::args::linktest::{LinktestArguments, LinktestWords};
use crate::cli::args::{Choice, Mode};

/// Turns arguments into a request.
pub(crate) fn parse(arguments: &LinktestArguments) -> Result<RunSpec, UsageError> {
    let mut outline = Outline::of(Shared {
        hosts: &arguments.hosts,
        sockets: &arguments.sockets,
        launch: &arguments.launch,
        results: &arguments.results,
        order: Some(&arguments.order),
    })?;
    let own = &arguments.own;
    let mut notes = Vec::new();
    let transport = match own.mode {
        Mode::Own(transport) => transport,
        Mode::Other(other) => {
            notes.push(format!(
                "--mode {other}: not available, this run uses TCP between nodes and Unix-domain sockets within a node"
            ));
            Transport::Auto
        }
    };
    if own.use_gpu_memory {
        return refuse("--use-gpu-memory: messages use the main memory of hosts (leave it out)");
    }
    let message_bytes = size("--size-messages", &own.size_messages)?;
    if own.parallel_sion_file {
        notes
            .push("--parallel-sion-file: no effect, the launching side writes the file".to_owned());
    }
    let buffers = match (own.multi_buffer, own.num_multi_buffer) {
        (true, 0) => 2,
        (_, 0) => 1,
        (_, count) => count,
    };
    if !own.min_runtime.is_finite() || own.min_runtime < 0.0 {
        let seconds = own.min_runtime;
        return refuse(format!("--min-runtime {seconds}: 0 seconds or more"));
    }
    let linktest = Linktest {
        ranks: outline.ranks(&arguments.ranks, transport, "--mode")?,
        kernel: match (own.bidirectional, own.unidirectional) {
            (true, _) => Kernel::Bidirectional,
            (_, true) => Kernel::Unidirectional,
            _ => Kernel::Semidirectional,
        },
        messages: own.num_messages,
        warmups: own.num_warmup_messages,
        message_bytes,
        serial: own.serial_tests,
        bisection: own.bisection,
        all_to_all: own.all_to_all,
        step_seed: own.randomize_steps.then_some(own.seed_randomize_steps),
        rank_orders: own.num_randomize_tasks,
        rank_seed: own.seed_randomize_tasks,
        buffers,
        random_contents: own.randomize_buffers,
        content_seed: own.seed_randomize_buffers,
        check: own.check_buffers,
        slowest: own.num_slowest,
        min_iterations: own.min_iterations.max(1),
        min_runtime_ns: numbers::whole(own.min_runtime * 1e9),
    };
    check(&linktest, outline.nodes.len())?;
    outline.seed = own.seed_randomize_buffers;
    notes.extend(outline.slots_note());
    let options = options(own, outline.nodes.len(), &linktest);
    Ok(RunSpec {
        notes,
        ..outline.spec(Work::Linktest(linktest), options)
    })
}

fn check(linktest: &Linktest, nodes: usize) -> Result<(), UsageError> {
    let Linktest {
        messages,
        warmups,
        buffers,
        ..
    } = *linktest;
    let ranks = linktest.ranks.count(nodes);
    if !RANKS.contains(&ranks) {
        let hint = if ranks < 2 {
            " (add a host, or use --ranks-per-node 2)"
        } else {
            ""
        };
        return refuse(format!("{ranks} ranks: from 2 to {}{hint}", RANKS.end()));
    }
    let most = *MESSAGES.end();
    if !MESSAGES.contains(&messages) {
        return refuse(format!("--num-messages {messages}: from 1 to {most}"));
    }
    if warmups > most {
        return refuse(format!("--num-warmup-messages {warmups}: at most {most}"));
    }
    if !MESSAGE_BYTES.contains(&linktest.message_bytes) {
        return refuse("--size-messages: from 1 byte to 1 GiB");
    }
    for (flag, count) in [
        ("--num-randomize-tasks", linktest.rank_orders),
        ("--min-iterations", linktest.min_iterations),
    ] {
        if count > MOST_ROUNDS {
            return refuse(format!("{flag} {count}: at most {MOST_ROUNDS}"));
        }
    }
    if !BUFFERS.contains(&buffers) {
        let most = BUFFERS.end();
        return refuse(format!("--num-multi-buffer {buffers}: at most {most}"));
    }
    Ok(())
}

fn options(own: &LinktestWords, nodes: usize, linktest: &Linktest) -> Options {
    let mut all = Options::of("linktest");
    let orders = linktest.rank_orders;
    all.set("ranks", linktest.ranks.count(nodes));
    all.set("mode", own.mode.word());
    all.set("kernel", linktest.kernel.name());
    all.set("num-messages", linktest.messages);
    all.set("size-messages", linktest.message_bytes);
    all.set("num-warmup-messages", linktest.warmups);
    all.set("num-slowest", linktest.slowest);
    all.flag("bisection", linktest.bisection);
    all.flag("serial-tests", linktest.serial);
    all.flag("all-to-all", linktest.all_to_all);
    all.given("seed-randomize-steps", linktest.step_seed);
    all.given("num-randomize-tasks", (orders > 0).then_some(orders));
    let seed = (orders > 0).then_some(linktest.rank_seed);
    all.given("seed-randomize-tasks", seed);
    let buffers = (linktest.buffers > 1).then_some(linktest.buffers);
    all.given("num-multi-buffer", buffers);
    let seed = linktest.random_contents.then_some(linktest.content_seed);
    all.given("seed-randomize-buffers", seed);
    all.flag("check-buffers", linktest.check);
    let least = linktest.min_iterations;
    all.given("min-iterations", (least > 1).then_some(least));
    let seconds = own.min_runtime;
    all.given(
        "min-runtime",
        (seconds > 0.0).then(|| format!("{seconds}s")),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::RunPlan;
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
            ("--hosts local", "1 ranks: from 2 to 4096 (add a host"),
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
                "--use-gpu-memory: messages use",
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
