//! Checks options against each other. Each refusal is one sentence with the flag to change.

use std::path::{Path, PathBuf};

use launcher::hosts::Host;

use crate::cli::args::{Launch, Measurement, PlainArguments};
use crate::plan::{
    BLOCK_BYTES, Bound, Coupling, PHASES, Pattern, STREAMS, Sink, SocketOptions, Source, Test,
    Verify,
};

use super::error::{UsageError, refuse};

/// Checks the options that all tests share.
pub(super) fn check(
    arguments: &PlainArguments,
    test: &Test,
    hosts: &[Host],
) -> Result<(), UsageError> {
    if !PHASES.contains(&test.phases) {
        // -p of iperf3 is a port.
        let hint = match test.phases {
            1024.. => "; ports are --port-range 5201-5210",
            _ => "",
        };
        return refuse(format!(
            "--phases {}: at least 2 (source and sink), at most 32{hint}",
            test.phases
        ));
    }
    if !STREAMS.contains(&test.streams) {
        return refuse(format!("--streams {}: from 1 to 256", test.streams));
    }
    if !BLOCK_BYTES.contains(&test.block_bytes) {
        return refuse(format!(
            "--block-size {}: from 64 bytes to 1 GiB",
            arguments.block_size.as_deref().unwrap_or_default()
        ));
    }
    let timed = matches!(test.bound, Bound::Time { .. });
    if let (Some(block), Some(rate), true) =
        (&arguments.block_size, test.sockets.rate_bits_per_s, timed)
        && rate / 8 < test.block_bytes as u64
    {
        return refuse(format!(
            "--rate {}: less than one block of {block} per second (leave out --block-size, or give a smaller one)",
            arguments.sockets.rate.as_deref().unwrap_or_default()
        ));
    }
    match test.bound {
        Bound::Time { window_ns, .. } if window_ns < 10_000_000 => {
            return refuse("--time: at least 10ms; shorter windows measure the clock");
        }
        Bound::Volume { buffers: 0 } => return refuse("--buffers 0: at least 1 block"),
        _ => {}
    }
    if !test.transport.crosses_hosts() {
        check_one_machine("--transport", hosts)?;
    }
    if !test.transport.crosses_hosts() && test.rails > 1 {
        return refuse("--transport unix has no interfaces, and so no rails");
    }
    if !test.transport.crosses_hosts() && test.ports.is_some() {
        return refuse("--port-range has no meaning with --transport unix");
    }
    let bounded =
        arguments.time.is_some() || arguments.warmup.is_some() || arguments.buffers.is_some();
    if let (Source::File(name), true) = (&test.source, bounded) {
        return refuse(format!(
            "--source {name}: the run is as long as the longest file (leave out --time, --warmup and --buffers)"
        ));
    }
    if test.sink == Sink::Discard && test.verify != Verify::None {
        return refuse("--sink discard never reads the payload (leave out --verify)");
    }
    if test.sink == Sink::Discard && test.coupling == Coupling::Buffer {
        let text = "--sink discard and --coupling buffer: the last phase has no buffers to empty";
        return refuse(text);
    }
    if arguments.results.keep_going.is_some() && is_in_order(test) {
        let text = "--keep-going needs links that do not wait for each other (leave out --coupling buffer and files)";
        return refuse(text);
    }
    Ok(())
}

/// Checks the pattern of a test.
pub(super) fn check_pattern(test: &Test, nodes: usize) -> Result<(), UsageError> {
    let pattern = &test.pattern;
    pattern.check(nodes, test.phases)?;
    // In an uneven pattern the links of a node must not slow each other, so they must not wait for each other.
    if !pattern.is_even(nodes) && test.coupling == Coupling::Buffer {
        return refuse(format!(
            "--pattern {pattern} and --coupling buffer: a link that stalls would slow its siblings"
        ));
    }
    Ok(())
}

/// Checks that files fit the pattern: they are split and joined in one order of blocks, the same on all nodes.
pub(super) fn check_files(tests: &[Test]) -> Result<(), UsageError> {
    let fits = |test: &Test| {
        let alike = matches!(
            test.pattern,
            Pattern::AllToAll | Pattern::Mesh | Pattern::Shift(_)
        );
        alike && tests.len() == 1
    };
    if tests.iter().any(|test| has_files(test) && !fits(test)) {
        let text = "--source and --sink with a file need one test with the same links on every node (--pattern all-to-all, mesh, ring or shift:K)";
        return refuse(text);
    }
    Ok(())
}

/// True if links wait for each other, so that no node can be left out while a test runs.
pub(super) fn is_in_order(test: &Test) -> bool {
    test.coupling == Coupling::Buffer || has_files(test)
}

/// True if a test reads or writes files on hosts.
pub(crate) fn has_files(test: &Test) -> bool {
    matches!(test.source, Source::File(_)) || matches!(test.sink, Sink::File(_))
}

/// Checks where results go.
pub(super) fn check_results(results: &Measurement) -> Result<(), UsageError> {
    let to_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    let files = [
        ("--csv", &results.csv),
        ("--json", &results.json),
        ("--json-stream", &results.json_stream),
    ];
    let mut files = files.into_iter().filter(|(_, path)| to_stdout(path));
    if let (Some((one, _)), Some((other, _))) = (files.next(), files.next()) {
        return refuse(format!(
            "{one} - and {other} - cannot both go to standard output"
        ));
    }
    Ok(())
}

/// Checks the options that all commands share.
pub(crate) fn check_launch(launch: &Launch) -> Result<(), UsageError> {
    if launch.fanout == 0 {
        return refuse("--fanout 0: at least 1");
    }
    // srun would take the host that is appended for the program to run.
    let rsh = launch.rsh.as_deref().unwrap_or_default();
    let program = rsh.split_whitespace().next().unwrap_or_default();
    if Path::new(program).ends_with("srun") && !rsh.contains("%h") {
        return refuse(
            "--rsh: srun needs -w %h (write --rsh 'srun --nodes=1 --ntasks=1 --overlap --cpu-bind=none -w %h')",
        );
    }
    Ok(())
}

/// Checks the options of data sockets.
pub(super) fn check_sockets(sockets: &SocketOptions) -> Result<(), UsageError> {
    if sockets.dscp.is_some_and(|dscp| dscp > 63) {
        return refuse("--dscp: from 0 to 63");
    }
    if sockets.rate_bits_per_s.is_some_and(|rate| rate < 8) {
        return refuse("--rate: at least 8 bits per second");
    }
    if sockets
        .mss_bytes
        .is_some_and(|mss| !(88..=65_495).contains(&mss))
    {
        return refuse("--mss: from 88 to 65495 bytes");
    }
    Ok(())
}

/// Checks that all hosts are one machine, according to their names. `flag` is the option that asks for Unix-domain sockets.
pub(super) fn check_one_machine(flag: &str, hosts: &[Host]) -> Result<(), UsageError> {
    let same = |host: &Host| !host.local && host.name == hosts[0].name;
    if hosts.iter().all(|host| host.local) || hosts.iter().all(same) {
        return Ok(());
    }
    refuse(format!(
        "{flag} unix needs all nodes on one machine (try --hosts local:3)"
    ))
}
