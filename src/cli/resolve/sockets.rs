//! Options of data ports and sockets.

use std::net::IpAddr;

use crate::plan::{DataNetwork, Family, SocketOptions};

use super::error::UsageError;
use super::values::{Options, rate, size};
use crate::cli::args::Sockets;

/// Choice of the data addresses.
pub(super) fn network_of(sockets: &Sockets) -> Result<DataNetwork, UsageError> {
    let networks = sockets.data_network.iter().map(|text| network(text));
    Ok(DataNetwork {
        networks: networks.collect::<Result<_, _>>()?,
        interfaces: sockets.interface.clone(),
        family: match (sockets.ipv4, sockets.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        },
    })
}

/// First and last port to listen on, if given.
pub(super) fn ports_of(sockets: &Sockets) -> Result<Option<(u16, u16)>, UsageError> {
    sockets.port_range.as_deref().map(ports).transpose()
}

/// Options of data sockets.
pub(super) fn sockets_of(sockets: &Sockets) -> Result<SocketOptions, UsageError> {
    let buffer =
        |flag, text: &Option<String>| text.as_deref().map(|text| size(flag, text)).transpose();
    let rate = sockets.rate.as_deref().map(|text| rate("--rate", text));
    Ok(SocketOptions {
        send_buffer_bytes: buffer("--sndbuf", &sockets.sndbuf)?,
        receive_buffer_bytes: buffer("--rcvbuf", &sockets.rcvbuf)?,
        mss_bytes: sockets.mss,
        congestion: sockets.congestion.clone(),
        dscp: sockets.dscp,
        rate_bits_per_s: rate.transpose()?,
    })
}

/// Options in effect, except those that are settled when the hosts are known.
pub(super) fn options(options: &mut Options, sockets: &Sockets) {
    options.list("data-network", &sockets.data_network);
    options.list("interface", &sockets.interface);
    options.given("port-range", sockets.port_range.as_ref());
    options.given("mss", sockets.mss);
    options.given("dscp", sockets.dscp);
    options.given("rate", sockets.rate.as_ref());
}

fn ports(text: &str) -> Result<(u16, u16), UsageError> {
    let wrong = || {
        UsageError::Value(format!(
            "--port-range {text:?} is not understood (write 5201-5210)"
        ))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |word: &str| word.trim().parse::<u16>().map_err(|_| wrong());
    let (first, last) = (number(first)?, number(last)?);
    if first == 0 || first > last {
        Err(wrong())
    } else {
        Ok((first, last))
    }
}

fn network(text: &str) -> Result<(IpAddr, u8), UsageError> {
    let wrong = || {
        UsageError::Value(format!(
            "--data-network {text:?} is not understood (write 10.1.0.0/16)"
        ))
    };
    let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
    if prefix > if address.is_ipv4() { 32 } else { 128 } {
        Err(wrong())
    } else {
        Ok((address, prefix))
    }
}
