//! Estimates what a gigabyte costs this host: one process sends it over loopback and receives it, in turn.
//!
//! A card costs more: it interrupts, its packets are smaller, and its data comes from no cache. So the figure is a lower bound, and it takes a
//! fraction of a second instead of a run.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::poll::PollFlags;

use crate::plan::SocketOptions;
use crate::record::HostCost;
use crate::sys::clock;
use crate::sys::memory::{Region, Span};
use crate::sys::pages::Pipe;
use crate::sys::socket;

/// Time for each of the two ways, in nanoseconds.
const TIME_NS: u64 = 100_000_000;
/// Payload that is timed at once. Short enough that some slices are not disturbed by other processes.
const SLICE_BYTES: u64 = 4 << 20;
/// Block sizes of a run: those of copies stay in the cache.
const COPIED_BYTES: usize = 256 << 10;
const PAGES_BYTES: usize = 1 << 20;
/// Most time that a call waits: data is under way within the host.
const PATIENCE: Duration = Duration::from_millis(100);

/// The estimate; `None` if this host has no loopback interface or is short of something.
pub(super) fn estimate() -> Option<HostCost> {
    let mut link = Loopback::new().ok()?;
    let block = Region::private(PAGES_BYTES).ok()?;
    block.populate(0, PAGES_BYTES);
    let span = block.span(0, PAGES_BYTES);
    let copied = vec![1; COPIED_BYTES];
    let mut pipe = Pipe::new().ok()?;
    Some(HostCost {
        copies_ns_per_gb: least_ns_per_gb(|| link.copy(&copied)).ok()?,
        pages_ns_per_gb: least_ns_per_gb(|| link.pass(span, &mut pipe)).ok()?,
    })
}

/// Nanoseconds per gigabyte of the cheapest slice: whatever disturbs only adds. `step` returns the bytes that it moved.
fn least_ns_per_gb(mut step: impl FnMut() -> io::Result<usize>) -> io::Result<u64> {
    let began_ns = clock::monotonic_ns();
    let (mut from_ns, mut bytes, mut least) = (began_ns, 0, u64::MAX);
    while from_ns < began_ns + TIME_NS || least == u64::MAX {
        bytes += step()? as u64;
        if bytes >= SLICE_BYTES {
            let now_ns = clock::monotonic_ns();
            least = least.min((now_ns - from_ns).saturating_mul(1_000_000_000) / bytes);
            (from_ns, bytes) = (now_ns, 0);
        }
    }
    Ok(least)
}

/// A TCP connection of this process with itself.
struct Loopback {
    out: OwnedFd,
    into: OwnedFd,
    received: Vec<u8>,
}

impl Loopback {
    fn new() -> io::Result<Self> {
        let options = SocketOptions {
            // The pauses that BBR makes are no cost.
            congestion: Some("reno".to_owned()),
            ..SocketOptions::default()
        };
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (listener, at) = socket::listen_tcp(address, None, &options)?;
        let out = socket::connect_tcp(address, at, &options, PATIENCE)?;
        let into = socket::accept(listener.as_fd(), PATIENCE)?;
        let into = into.ok_or(io::ErrorKind::TimedOut)?;
        socket::prepare_data(&out, true, PATIENCE)?;
        socket::bound_calls(&into, PATIENCE)?;
        // One process does both, so it must not wait for its own reading.
        socket::set_nonblocking(&out, true)?;
        Ok(Self {
            out,
            into,
            received: vec![0; COPIED_BYTES],
        })
    }

    /// Sends what fits of a block, and receives it.
    fn copy(&mut self, block: &[u8]) -> io::Result<usize> {
        let sent = self.when_ready(|out| socket::send_bytes(out.as_fd(), block))?;
        self.receive(sent)
    }

    /// Sends the pages of a block, and receives them.
    fn pass(&mut self, block: Span<'_>, pipe: &mut Pipe) -> io::Result<usize> {
        let loaded = pipe.load(block)?;
        while pipe.inside() > 0 {
            let sent = self.when_ready(|out| pipe.give(out.as_fd(), false))?;
            self.receive(sent)?;
        }
        Ok(loaded)
    }

    fn when_ready(&self, mut send: impl FnMut(&OwnedFd) -> io::Result<usize>) -> io::Result<usize> {
        match send(&self.out) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket::wait_for(self.out.as_fd(), PollFlags::POLLOUT, PATIENCE)?;
                send(&self.out)
            }
            sent => sent,
        }
    }

    fn receive(&mut self, bytes: usize) -> io::Result<usize> {
        let mut left = bytes;
        while left > 0 {
            let most = left.min(self.received.len());
            match socket::receive_bytes(self.into.as_fd(), &mut self.received[..most])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                got => left -= got,
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabyte_costs_this_host_something_within_a_second() {
        let cost = estimate().unwrap();
        // Memory moves at less than a terabyte per second, and a process at more than 10 MB per second.
        for ns in [cost.copies_ns_per_gb, cost.pages_ns_per_gb] {
            assert!((1_000_000..100_000_000_000).contains(&ns), "{cost:?}");
        }
    }

    #[test]
    fn a_cost_is_that_of_the_cheapest_slice() {
        let mut steps = 0;
        let cost = least_ns_per_gb(|| {
            steps += 1;
            // The first slice is disturbed, and the others take 10 ms each.
            clock::sleep_until(
                clock::monotonic_ns() + if steps == 1 { 50 } else { 10 } * 1_000_000,
            );
            Ok(8 << 20)
        });
        let slept_ns = 10_000_000_u64 * 1_000_000_000 / (8 << 20);
        assert!(cost.unwrap() < 3 * slept_ns && steps > 2);
        assert!(least_ns_per_gb(|| Err(io::ErrorKind::UnexpectedEof.into())).is_err());
    }
}
