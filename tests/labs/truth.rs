//! Tests ten fabrics, most with a known injury: pipebench must report that injury. `cargo bench --bench truth` tries any number
//! of fabrics; docs/truth.md has the results.

#[path = "../truth/mod.rs"]
mod cases;

use crate::tries::{self, should};
use cases::{Case, Injury, Shape, try_case};
use pipebench::internals::record::VerdictWord;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

/// Arguments of a full acceptance, as short as possible.
const ALL: &[&str] = &["--profile", "acceptance", "--time", "1s"];
/// Arguments of the permutations, which suffice to find a slow port.
const PERMUTATIONS: &[&str] = &["--pattern", "rotate", "--time", "1s"];

/// The permutations for one switch whose ports must all carry their required rate at once.
const NON_BLOCKING: &[&str] = &[
    "--pattern",
    "rotate",
    "--time",
    "1s",
    "--fabric",
    "non-blocking",
];

fn expect(
    tests: &[&str],
    hosts: usize,
    shape: Shape,
    injury: Option<Injury>,
    left: u32,
    word: VerdictWord,
) {
    let case = Case {
        hosts,
        shape,
        congestion: "reno",
        injury,
        left,
    };
    let tests = [tests, &["--warmup", "500ms"]].concat();
    tries::of_three(|| {
        let outcome = try_case(PIPEBENCH, &case, &tests);
        assert!(!outcome.innocent, "{case}: {outcome:#?}\n{}", outcome.said);
        should!(outcome.right, "{case}: {outcome:#?}\n{}", outcome.said);
        should!(outcome.word == word, "{case}:\n{}", outcome.said);
        Ok(())
    });
}

#[test]
fn a_sound_fabric_passes() {
    expect(ALL, 4, Shape::Plain, None, 100, VerdictWord::Pass);
}

/// BBR's acknowledgements queue after a port's incoming data: in a ring of six, every second port falls short.
#[test]
fn a_sound_fabric_of_hosts_with_bbr_passes() {
    let case = Case {
        hosts: 6,
        shape: Shape::Plain,
        congestion: "bbr",
        injury: None,
        left: 100,
    };
    tries::of_three(|| {
        let outcome = try_case(
            PIPEBENCH,
            &case,
            &["--pattern", "rotate", "--time", "2s", "--warmup", "500ms"],
        );
        let said = &outcome.said;
        should!(outcome.word == VerdictWord::Pass, "{said}");
        Ok(())
    });
}

#[test]
fn mixed_speeds_and_a_slow_port_on_purpose_pass() {
    expect(
        PERMUTATIONS,
        3,
        Shape::MixedSpeeds,
        None,
        100,
        VerdictWord::Pass,
    );
}

#[test]
fn an_oversubscribed_uplink_passes_and_one_that_carries_half_is_named() {
    expect(ALL, 4, Shape::Oversubscribed, None, 100, VerdictWord::Pass);
    let uplink = Some(Injury::Uplink);
    expect(ALL, 4, Shape::Oversubscribed, uplink, 50, VerdictWord::Fail);
}

#[test]
fn a_host_that_sends_slowly_is_named() {
    expect(
        PERMUTATIONS,
        3,
        Shape::Plain,
        Some(Injury::Send(1)),
        50,
        VerdictWord::Fail,
    );
}

#[test]
fn a_host_that_receives_slowly_is_named() {
    expect(
        PERMUTATIONS,
        3,
        Shape::Plain,
        Some(Injury::Receive(3)),
        80,
        VerdictWord::Fail,
    );
}

#[test]
fn a_pair_is_named_and_not_its_ports() {
    expect(
        PERMUTATIONS,
        3,
        Shape::Plain,
        Some(Injury::Pair(2, 3)),
        50,
        VerdictWord::Fail,
    );
}

#[test]
fn two_faults_at_once_are_told_apart() {
    expect(
        PERMUTATIONS,
        4,
        Shape::Plain,
        Some(Injury::Two(1, 3)),
        50,
        VerdictWord::Fail,
    );
}

/// The port's mean rate is above the floor.
#[test]
fn a_port_that_is_slow_for_two_seconds_of_every_eight_is_named() {
    let tests = ["--pattern", "rotate", "--time", "8s", "--floor", "80"];
    let slow = Some(Injury::InStretches(2));
    expect(&tests, 3, Shape::Plain, slow, 50, VerdictWord::Fail);
}

#[test]
fn a_slow_processor_never_fails_a_switch() {
    let throttled = Some(Injury::Throttled(2, 6));
    expect(
        ALL,
        3,
        Shape::Plain,
        throttled,
        100,
        VerdictWord::HostLimited,
    );
}

#[test]
fn lost_frames_are_counted_where_nothing_need_be_lost() {
    let loss = Some(Injury::Loss(2, 1000));
    expect(ALL, 3, Shape::Plain, loss, 100, VerdictWord::Fail);
}

#[test]
fn an_uplink_as_fast_as_its_ports_that_carries_less_is_named() {
    let uplink = Some(Injury::Uplink);
    expect(
        PERMUTATIONS,
        4,
        Shape::FullTrunk,
        None,
        100,
        VerdictWord::Pass,
    );
    expect(
        PERMUTATIONS,
        4,
        Shape::FullTrunk,
        uplink,
        75,
        VerdictWord::Fail,
    );
}

#[test]
fn a_backplane_is_named_and_no_port() {
    let backplane = Some(Injury::Backplane);
    expect(
        NON_BLOCKING,
        6,
        Shape::Plain,
        backplane,
        60,
        VerdictWord::Fail,
    );
}

#[test]
fn a_slow_port_does_not_hide_a_backplane() {
    let both = Some(Injury::ReceiveBesideBackplane(1));
    expect(NON_BLOCKING, 4, Shape::Plain, both, 60, VerdictWord::Fail);
}

#[test]
fn a_host_that_cannot_send_and_receive_at_once_is_named() {
    let duplex = Some(Injury::HalfDuplex(2));
    expect(PERMUTATIONS, 3, Shape::Plain, duplex, 60, VerdictWord::Fail);
}

#[test]
fn an_uplink_that_was_not_declared_is_found() {
    let uplink = Some(Injury::HiddenUplink);
    expect(NON_BLOCKING, 4, Shape::Plain, uplink, 60, VerdictWord::Fail);
}

#[test]
fn a_port_at_94_per_cent_among_six_fails_by_those_like_it() {
    let tests = [PERMUTATIONS, &["--floor", "peers"]].concat();
    let sends = Some(Injury::Send(2));
    expect(&tests, 6, Shape::Plain, sends, 94, VerdictWord::Fail);
}
