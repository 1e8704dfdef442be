//! All thresholds of the judge: unit, reason and source of each. docs/judging.md has the same table, and a test compares the two.
//!
//! Limits of effort, such as how many looks are made, stand where they are used.

// What a test must be.

/// A test does not count if a node's counting interval differs from the window by more than this share of it: the node lacked processors.
pub(super) const WINDOW_OFF: f64 = 0.05;
/// Share of the window by which the nodes' windows may be apart.
pub(super) const WINDOW_SKEW: f64 = 0.1;
/// Multiple of its capacity that a port can show: a shaper's burst, or data that waited in receive buffers when the window began. More is an error.
pub(super) const MOST_CARRIED: f64 = 1.5;
/// A sink is slow if its receivers wait for it for this share of the time.
pub(super) const SLOW_SINK: f64 = 0.5;
/// Share of a port's capacity that other traffic may take. With more, the port is not judged.
pub(super) const FOREIGN: f64 = 0.02;
/// A port that carries more than this multiple of its capacity is not limited by that capacity.
pub(super) const EXCEEDS: f64 = 1.08;
/// Share of its capacity from which a place counts as full.
pub(super) const FULL: f64 = 0.98;
/// Links compete for a place if their demand exceeds its capacity by this factor.
pub(super) const COMPETE: f64 = 1.02;
/// Ports whose capacities differ by less than this factor have the same speed; acknowledgements cause the difference.
pub(super) const SAME_SPEED: f64 = 1.05;
/// A test judges what several links share only if it expects more than this multiple of the highest rate seen there.
pub(super) const FULLER: f64 = 1.02;

// What excuses a port.

/// A processor core that is busy for this share of the time is at its limit.
pub(super) const CORE_BUSY: f64 = 0.95;
/// A core that spends this share of its time on packets serves links, whichever process runs on it.
pub(super) const CORE_ON_PACKETS: f64 = 0.5;
/// Share of their time that a host's processes are ready and wait for a processor: above half they wait longer than they run.
pub(super) const PROCESSES_WAIT: f64 = 0.5;
/// Share of the window below which such waiting is normal.
pub(super) const LEAST_WAIT: f64 = 0.3;
/// Share of received frames that an interface may miss for lack of room. With more, its host is at its limit.
pub(super) const FRAMES_MISSED: f64 = 1e-4;
/// Pause frames that an interface may send in a test. With more, its host is at its limit; a few are normal when a link comes up.
pub(super) const PAUSE_FRAMES: u64 = 10;
/// The time that processes wait for a processor explains a deficit if it is at least this share of it.
pub(super) const WAIT_EXPLAINS: f64 = 0.5;
/// Competing TCP links left healthy uplinks at 74 % for two seconds; a share below this one is not due to chance.
pub(super) const UPLINK_BY_CHANCE: f64 = 0.7;
/// The same for a port that several links share.
pub(super) const PORT_BY_CHANCE: f64 = 0.85;
/// Share of a port's deficit that links which are still recovering their rate must account for.
pub(super) const RISING_LACKS: f64 = 0.8;
/// A link is recovering its rate if the last stretch of a window carries this multiple of the first.
pub(super) const RISES: f64 = 1.2;

// What costs rate on a host.

/// Line rate in Gbit/s from which offloads that are off are named before a run: a core fills slower ports without them, and some of their drivers have them off.
pub(super) const OFFLOADS_FROM_GBIT: f64 = 5.0;
/// Line rate in Gbit/s from which receive rings and queues are compared with their maximum: a core takes about this rate, so that faster ports need several.
pub(super) const FAST_PORT_GBIT: f64 = 25.0;
/// A receive ring below this share of its maximum is small for such a port: 512 entries are full after 63 us of full frames at 100 Gbit/s.
pub(super) const RING_SMALL: f64 = 0.125;
/// Receive queues that such a port needs for each `FAST_PORT_GBIT`, if host and card have as many: a hash distributes connections unevenly.
pub(super) const QUEUES_PER_FAST: f64 = 2.0;

// Time inside the window.

/// Shortest stretch of a window that is judged, in seconds.
pub(super) const STRETCH_S: f64 = 2.0;
/// The same as a share of the window, where that is longer.
pub(super) const STRETCH_PART: f64 = 0.1;
/// A port that carries this share of its mean in its worst stretch is even.
pub(super) const EVEN: f64 = 0.95;
/// The same where several links share a port: the worst stretch of healthy ports was at 93 %.
pub(super) const EVEN_SHARED: f64 = 0.9;
/// Time in seconds for which BBR sends almost nothing, from time to time (PROBE_RTT in draft-ietf-ccwg-bbr).
pub(super) const PROBE_S: f64 = 0.2;
/// Share of a port's deficit in a stretch that all ports together must lack, too; otherwise other links carried it.
pub(super) const STRETCH_LACKS: f64 = 0.5;

// How well faults explain a test.

/// A prediction that exceeds the observation by this share does not explain it.
pub(super) const NEAR: f64 = 0.07;
/// The same as a share of the room above the floor: a deficit below a high floor must not pass without an explanation.
pub(super) const NEAR_FLOOR: f64 = 0.7;
/// The same where both are below the floor and only the place itself limits the rate.
pub(super) const DEPTH: f64 = 0.10;
/// Standard deviations that need no explanation where links share something full elsewhere: they never share fairly.
pub(super) const UNFAIR: f64 = 1.5;
/// Standard deviation of the rate of a place that limits itself, as a share of the expected rate.
pub(super) const TIGHT: f64 = 0.04;
/// The same as a share of the room above the floor, where that is less.
pub(super) const TIGHT_OF_FLOOR: f64 = 0.4;
/// Lower limit of that standard deviation.
pub(super) const TIGHTEST: f64 = 0.015;
/// Standard deviation of a link that shares something full elsewhere, as a share of the expected rate.
pub(super) const LOOSE: f64 = 0.15;
/// Factor on these deviations where ports carry more than they should be able to.
pub(super) const EXCEEDED: f64 = 3.0;
/// Upper limit of the cost of a single figure, in units of log-likelihood: one that is far off may be an accident.
pub(super) const MOST_PER_FIGURE: f64 = 10.0;
/// Something that several links share is narrow if it passes less than this share of the demand.
pub(super) const NARROW: f64 = 0.96;
/// Price of a port or uplink direction, in units of log-likelihood: a rarer fault costs more, and so does one that can explain more.
pub(super) const PLACE_PRICE: f64 = 5.0;
/// The same where its host was at its limit.
pub(super) const LIMITED_PRICE: f64 = 3.0;
/// Price of a pair, and of a port that cannot carry both directions at once.
pub(super) const PAIR_PRICE: f64 = 6.0;
/// Price of all ports together.
pub(super) const FABRIC_PRICE: f64 = 7.0;
/// Price of a group of ports.
pub(super) const GROUP_PRICE: f64 = 8.0;
/// Additional price of each port by which a group differs from none or all.
pub(super) const PORT_OF_GROUP_PRICE: f64 = 0.25;
/// Price of a path under some pairs, and one more for each pair.
pub(super) const PATH_PRICE: f64 = 7.0;
/// Additional price of a fault that comes and goes, in units of log-likelihood.
pub(super) const VARIES_PRICE: f64 = 4.0;
/// Price of each time that such a fault was present.
pub(super) const EACH_TIME_PRICE: f64 = 2.5;
/// Additional price of a group of ports that is neither a set of senders, nor of receivers, nor an uplink.
pub(super) const UNUSUAL_PRICE: f64 = 1.5;
/// A lasting fault passes the same rate each time within this share.
pub(super) const STEADY: f64 = 0.15;
/// Groups of ports are tried only where single faults cost more than this, in units of log-likelihood: as much as both directions of a busy host.
pub(super) const GROUPS_FROM: f64 = 6.0;
/// Standard deviations beyond which an observation is far from its prediction.
pub(super) const FAR: f64 = 3.5;
/// A first guess is followed if it explains the tests at most this much worse, in units of log-likelihood.
pub(super) const GUESS_WITHIN: f64 = 10.0;
/// Two explanations closer than this, in units of log-likelihood, cannot be told apart.
pub(super) const INSEPARABLE: f64 = 3.0;
/// An explanation at most this much worse is worth a retest where the best one cannot be shown, in units of log-likelihood.
pub(super) const LOOK_WITHIN: f64 = 20.0;
/// Unevenness with which links share what a fault leaves, as a share.
pub(super) const UNEVEN_BESIDE_FAULT: f64 = 0.1;
/// All ports together are as predicted if they carry at least this share of the prediction.
pub(super) const AS_PREDICTED: f64 = 0.97;

// Retests.

/// The ports of a pair are healthy with others if they carried this multiple with them.
pub(super) const WELL_WITH_OTHERS: f64 = 1.04;
/// Share of their capacity to which links are limited in loss tests: at this rate the fabric need not lose frames.
pub(super) const PACED: f64 = 0.95;
/// Two shares under load are alike if they differ by less than this.
pub(super) const ALIKE_UNDER_LOAD: f64 = 0.1;

// Losses.

/// Links that reach less than this share of the rate to which they are limited are in contention.
pub(super) const REACHED: f64 = 0.97;
/// A pair that once carried this share of its expected rate is not narrow.
pub(super) const NOT_NARROW: f64 = 0.92;
/// Losses that a retest should see if the loss rate stays the same.
pub(super) const LOSSES_TO_SEE: f64 = 25.0;
/// A place is lossy if a permitted loss share would cause as many losses with less than this probability.
pub(super) const LOSS_CHANCE: f64 = 1e-4;
/// Share of a port's losses that a pair must have to be blamed instead of the port.
pub(super) const OF_A_PORT: f64 = 0.8;

// Ports like each other.

/// Share of the median of its class that a port must reach with `--floor peers`.
pub(crate) const PEERS: f64 = 0.97;
/// Probability that a run with healthy ports only names one of them, over all figures of the run.
pub(super) const ODD_CHANCE: f64 = 0.01;
/// A port is as slow as its slow partner if it differs by less than this factor.
pub(super) const AS_SLOW: f64 = 1.01;
/// Share above its capacity that needs no remark: shapers that do not count preambles and gaps pass 1.6 % more with frames of 1518 bytes.
pub(super) const BEYOND: f64 = 0.025;

// Link tests.

/// Time of a message below which latency, not rate, is measured, in seconds: a round trip of 50 us is a twentieth of it.
pub(super) const SHORTEST_MESSAGE_S: f64 = 1e-3;
/// The same for all timed messages of a link together: connections must have found their rate.
pub(super) const SHORTEST_LINK_S: f64 = 20e-3;
/// A rank that moves bytes for this share of its time is the limit, not the link.
pub(super) const RANK_BUSY: f64 = 0.95;
/// The links of a rank that waits for a processor for this share of its time are not judged.
pub(super) const RANK_WAITS: f64 = 0.3;
