//! Message patterns of a pair of ranks, and what is timed.
//!
//! ```text
//!  semidirectional            bidirectional              unidirectional
//!  t0 a --- S ---> b          t0 a <-- S, S --> b        t0 a --- S ---> b
//!     a <-- S ---- b   n x       a <-- S, S --> b  n x      a --- S ---> b   n x
//!  t1                         t1                         t1 a <- receipt b
//! ```

use crate::jobs::timing::Times;
use crate::plan::linktest::Kernel;

use super::buffers::Buffers;

/// One rank's end of the link to its partner; a fake in tests, where the clock must be exact.
pub(crate) trait Partner {
    /// Error of the link.
    type Error;
    /// Sends a message.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
    /// Receives a message of exactly this length.
    fn receive(&mut self, into: &mut [u8]) -> Result<(), Self::Error>;
    /// Sends and receives at the same time.
    fn both(&mut self, bytes: &[u8], into: &mut [u8]) -> Result<(), Self::Error>;
    /// Time of the clock, in nanoseconds.
    fn now_ns(&mut self) -> u64;
}

/// Size and kind of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dose {
    /// Pattern of the messages.
    pub kernel: Kernel,
    /// Messages that are timed.
    pub messages: usize,
    /// Warm-up messages before them.
    pub warmups: usize,
}

/// Length of the receipt of a unidirectional measurement, in bytes. LinkTest does not document the length of its receipt.
const RECEIPT_BYTES: usize = 1;

/// Part of the rank that starts and times. Returns the time from t0 to t1 in nanoseconds. The round-trip times of single messages go to
/// `times`. With unidirectional messages `times` stays empty, since the time at which a message leaves says nothing about the link.
pub(crate) fn lead<P: Partner>(
    partner: &mut P,
    buffers: &mut Buffers,
    dose: Dose,
    times: &mut Times,
) -> Result<u64, P::Error> {
    times.clear();
    for number in 0..dose.warmups {
        round(partner, buffers, dose.kernel, number, true)?;
    }
    if dose.kernel == Kernel::Unidirectional && dose.warmups > 0 {
        partner.receive(&mut [0; RECEIPT_BYTES])?;
    }
    let first_ns = partner.now_ns();
    if dose.kernel == Kernel::Unidirectional {
        for number in 0..dose.messages {
            round(partner, buffers, dose.kernel, number, true)?;
        }
        partner.receive(&mut [0; RECEIPT_BYTES])?;
        return Ok(partner.now_ns() - first_ns);
    }
    let mut last_ns = first_ns;
    for number in 0..dose.messages {
        round(partner, buffers, dose.kernel, number, true)?;
        let now_ns = partner.now_ns();
        times.add(now_ns - last_ns);
        last_ns = now_ns;
    }
    Ok(last_ns - first_ns)
}

/// Part of the other rank. With unidirectional messages it measures the time between arrivals, which goes to `times`.
pub(crate) fn follow<P: Partner>(
    partner: &mut P,
    buffers: &mut Buffers,
    dose: Dose,
    times: &mut Times,
) -> Result<(), P::Error> {
    times.clear();
    for number in 0..dose.warmups {
        round(partner, buffers, dose.kernel, number, false)?;
    }
    if dose.kernel != Kernel::Unidirectional {
        for number in 0..dose.messages {
            round(partner, buffers, dose.kernel, number, false)?;
        }
        return Ok(());
    }
    if dose.warmups > 0 {
        partner.send(&[0; RECEIPT_BYTES])?;
    }
    let mut last_ns = None;
    for number in 0..dose.messages {
        round(partner, buffers, dose.kernel, number, false)?;
        let now_ns = partner.now_ns();
        if let Some(last_ns) = last_ns {
            times.add(now_ns - last_ns);
        }
        last_ns = Some(now_ns);
    }
    partner.send(&[0; RECEIPT_BYTES])
}

fn round<P: Partner>(
    partner: &mut P,
    buffers: &mut Buffers,
    kernel: Kernel,
    number: usize,
    leads: bool,
) -> Result<(), P::Error> {
    let (out, into) = buffers.turn(number);
    match (kernel, leads) {
        (Kernel::Semidirectional, true) => {
            partner.send(out)?;
            partner.receive(into)
        }
        (Kernel::Semidirectional, false) => {
            partner.receive(into)?;
            partner.send(out)
        }
        (Kernel::Bidirectional, _) => {
            partner.both(out, into)?;
            partner.both(out, into)
        }
        (Kernel::Unidirectional, true) => partner.send(out),
        (Kernel::Unidirectional, false) => partner.receive(into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// A link on which each message takes exactly a given time, and a clock that nothing else moves.
    struct Exact {
        now_ns: u64,
        out_ns: u64,
        back_ns: u64,
        /// Time of two messages at once, one in each direction.
        both_ns: u64,
        receipt_ns: u64,
        sent: Vec<usize>,
        received: Vec<usize>,
    }

    impl Partner for Exact {
        type Error = Infallible;

        fn send(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
            self.now_ns += self.out_ns;
            self.sent.push(bytes.len());
            Ok(())
        }

        fn receive(&mut self, into: &mut [u8]) -> Result<(), Infallible> {
            self.now_ns += if into.len() == RECEIPT_BYTES {
                self.receipt_ns
            } else {
                self.back_ns
            };
            self.received.push(into.len());
            Ok(())
        }

        fn both(&mut self, bytes: &[u8], into: &mut [u8]) -> Result<(), Infallible> {
            self.now_ns += self.both_ns;
            self.sent.push(bytes.len());
            self.received.push(into.len());
            Ok(())
        }

        fn now_ns(&mut self) -> u64 {
            self.now_ns
        }
    }

    fn exact() -> Exact {
        Exact {
            now_ns: 1_000_000_000_007,
            out_ns: 11_003,
            back_ns: 9_001,
            both_ns: 13_007,
            receipt_ns: 17,
            sent: Vec::new(),
            received: Vec::new(),
        }
    }

    fn measure(kernel: Kernel, messages: usize, warmups: usize) -> (f64, Times, Exact) {
        let dose = Dose {
            kernel,
            messages,
            warmups,
        };
        let (mut link, mut times) = (exact(), Times::default());
        let mut buffers = Buffers::new(1000, 1);
        let ns = lead(&mut link, &mut buffers, dose, &mut times).unwrap();
        (kernel.seconds(ns, messages), times, link)
    }

    #[test]
    fn a_ping_pong_is_half_of_there_and_back_to_the_last_digit() {
        let (seconds, mut times, link) = measure(Kernel::Semidirectional, 25, 3);
        let expected = 25.0 * 20_004.0 / 50e9;
        assert_eq!(seconds.to_bits(), f64::to_bits(expected));
        assert_eq!(seconds, 10_002e-9);
        let bandwidth = Kernel::Semidirectional.bandwidth(1000, seconds);
        assert_eq!(bandwidth.to_bits(), f64::to_bits(1000.0 / expected));
        assert_eq!((link.sent.len(), link.received.len()), (28, 28));
        let spread = times.spread(2.0).unwrap();
        assert_eq!(spread.count, 25);
        assert_eq!((spread.least_s, spread.most_s), (10_002e-9, 10_002e-9));
    }

    #[test]
    fn two_at_once_count_both_messages_and_the_time_of_one_way() {
        let (seconds, _, link) = measure(Kernel::Bidirectional, 10, 2);
        assert_eq!(seconds.to_bits(), f64::to_bits(20.0 * 13_007.0 / 20e9));
        assert_eq!(
            Kernel::Bidirectional.bandwidth(1000, seconds).to_bits(),
            f64::to_bits(2000.0 / seconds)
        );
        assert_eq!(link.sent.len(), 2 * 12);
    }

    #[test]
    fn one_way_counts_all_messages_and_one_receipt() {
        let (seconds, mut times, link) = measure(Kernel::Unidirectional, 7, 4);
        let expected = (7.0 * 11_003.0 + 17.0) / 7e9;
        assert_eq!(seconds.to_bits(), f64::to_bits(expected));
        assert_eq!(times.spread(1.0), None);
        // Warm-ups have their own receipt, so that nothing is under way when the clock starts.
        assert_eq!(link.received, [RECEIPT_BYTES; 2]);
        assert_eq!(link.sent.len(), 11);
    }

    #[test]
    fn warm_ups_are_not_timed() {
        let (with, ..) = measure(Kernel::Semidirectional, 5, 1000);
        let (without, ..) = measure(Kernel::Semidirectional, 5, 0);
        assert_eq!(with, without);
    }

    #[test]
    fn the_other_side_does_the_reverse_and_sees_the_distances_of_what_comes() {
        let dose = Dose {
            kernel: Kernel::Unidirectional,
            messages: 5,
            warmups: 1,
        };
        let (mut link, mut times) = (exact(), Times::default());
        follow(&mut link, &mut Buffers::new(1000, 2), dose, &mut times).unwrap();
        assert_eq!(link.received, [1000; 6]);
        assert_eq!(link.sent, [RECEIPT_BYTES; 2]);
        let spread = times.spread(1.0).unwrap();
        assert_eq!((spread.count, spread.median_s), (4, 9_001e-9));
    }
}
