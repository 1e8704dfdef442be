//! Specified properties of the ports: turns arguments into criteria and speeds of nodes.

use crate::cli::args::{FabricOrder, Order};
use crate::plan::{Criteria, NodeSpec, Uplink};
use crate::units;

use super::error::{UsageError, refuse};
use super::nodes::MTUS;
use super::values::{Options, rate};

/// Reads the criteria. Gives the speed of all ports to nodes that have no separate speed.
pub(super) fn criteria_of(order: &Order, nodes: &mut [NodeSpec]) -> Result<Criteria, UsageError> {
    if let Some(text) = &order.link_speed {
        let speed = rate("--link-speed", text)?;
        for node in nodes.iter_mut() {
            node.speed_bits_per_s.get_or_insert(speed);
        }
    }
    if nodes.iter().any(|node| node.speed_bits_per_s == Some(0)) {
        return refuse("--link-speed and speed=: more than 0 bits per second");
    }
    let min_rate = order.min_rate.as_deref();
    let min_rate = min_rate.map(|text| rate("--min-rate", text)).transpose()?;
    if let Some((node, asked)) = min_rate.and_then(|asked| {
        let narrow = |node: &&NodeSpec| node.speed_bits_per_s.is_some_and(|speed| asked >= speed);
        Some((nodes.iter().find(narrow)?, asked))
    }) {
        return refuse(format!(
            "--min-rate {}: above the payload ceiling of the port of {}, specified with {} on the wire (give less, or use --floor)",
            order.min_rate.as_deref().unwrap_or_default(),
            node.label,
            units::show_rate(node.speed_bits_per_s.unwrap_or(asked) as f64)
        ));
    }
    let peers = order.floor == "peers";
    let floor = match peers {
        true => Criteria::default().floor,
        false => {
            let percent = order.floor.trim_end_matches('%').parse();
            percent.unwrap_or(f64::NAN) / 100.0
        }
    };
    // "1" is more often all of it than a hundredth.
    if floor < 0.1 && !order.floor.ends_with('%') && (0.01..).contains(&floor) {
        return refuse(format!(
            "--floor {0}: {0} percent? (write 90, or {0}% if you mean that)",
            order.floor
        ));
    }
    if !(0.01..=1.0).contains(&floor) {
        return refuse(format!(
            "--floor {}: from 1 to 100 percent, or peers",
            order.floor
        ));
    }
    if order.mtu.is_some_and(|mtu| !MTUS.contains(&mtu)) {
        let (least, most) = MTUS.into_inner();
        return refuse(format!("--mtu: from {least} to {most} bytes"));
    }
    if order.overhead_bytes > 512 {
        return refuse("--overhead-bytes: at most 512");
    }
    let mut uplinks: Vec<Uplink> = Vec::new();
    for word in &order.uplink {
        let uplink = uplink(word)?;
        let known = |node: &NodeSpec| node.group.as_deref() == Some(&uplink.group);
        if !nodes.iter().any(known) {
            return refuse(format!(
                "--uplink {word}: no host is in group {} (write group={} in a host file)",
                uplink.group, uplink.group
            ));
        }
        if uplinks.iter().any(|other| other.group == uplink.group) {
            return refuse(format!("--uplink: group {} is given twice", uplink.group));
        }
        uplinks.push(uplink);
    }
    Ok(Criteria {
        floor,
        peers,
        min_rate_bits_per_s: min_rate,
        mtu_bytes: order.mtu,
        overhead_bytes: order.overhead_bytes,
        uplinks,
        non_blocking: order.fabric == Some(FabricOrder::NonBlocking),
        ..Criteria::default()
    })
}

/// Options in effect.
pub(super) fn options(options: &mut Options, order: &Order, criteria: &Criteria) {
    options.given("link-speed", order.link_speed.as_ref());
    for one in criteria.said() {
        options.set(one.option, one.value);
    }
}

fn uplink(word: &str) -> Result<Uplink, UsageError> {
    let parts = word
        .split_once('=')
        .map(|(group, speed)| (group.trim(), speed.trim()));
    match parts {
        Some((group, speed)) if !group.is_empty() => Ok(Uplink {
            group: group.to_owned(),
            bits_per_s: rate("--uplink", speed)?,
        }),
        _ => refuse(format!(
            "--uplink {word:?} is not understood (write leaf1=400G)"
        )),
    }
}
