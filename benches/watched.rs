//! What twenty watchers of a page cost the run that they watch, and how soon after the start the page has a figure.
//!
//! ```sh
//! cargo bench --bench watched          # 15 pairs of runs of 5 s, about five minutes
//! cargo bench --bench watched -- 31
//! ```
//!
//! A server runs `local:3` without a rate limit: with everything on one machine, watchers take processors from the run itself, which on real hosts
//! they would not. Runs alternate; the ratio is the total rate with watchers by that without, of the same pair. The table shows medians, and of the
//! ratio the middle half.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "../tests/site/mod.rs"]
mod site;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pipebench::internals::report::json;
use site::{Served, Site, request};

const WATCHERS: usize = 20;
const SITE: &str = "version = 1\nresults = \"runs\"\ntoken-file = \"token\"\n[limits]\nstarts-per-minute = 1000\n\
    [groups.here]\nhosts = \"local:3\"\n";
const RUN: &str = r#"{"group":"here","time":"5s"}"#;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let pairs: usize = words
        .next()
        .map_or(15, |word| word.parse().expect("a number of pairs"));
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let (mut ratios, mut first_s) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let mut rates = [0.0; 2];
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        for watched in order {
            let began = Instant::now();
            let name = server.start_run(RUN);
            // One watcher measures the time; a run needs one to be seen.
            let seats = if watched == 1 { WATCHERS } else { 1 };
            let watchers: Vec<_> = (0..seats).map(|_| watch(&server, &name, began)).collect();
            let soonest = watchers
                .into_iter()
                .filter_map(|one| one.join().expect("a watcher"));
            first_s.extend(soonest.min().map(|time: Duration| time.as_secs_f64()));
            server.wait_for(&name, &["ended"]);
            rates[watched] = rate_of(&site, &name);
        }
        ratios.push(rates[1] / rates[0]);
    }
    let quartiles = |figures: &mut Vec<f64>| {
        figures.sort_unstable_by(f64::total_cmp);
        [1, 2, 3].map(|part| figures[(figures.len() - 1) * part / 4])
    };
    let [low, ratio, high] = quartiles(&mut ratios);
    let [_, first, late] = quartiles(&mut first_s);
    println!("pairs of runs                                      {pairs}");
    println!(
        "total rate with {WATCHERS} watchers by that with one          {ratio:.3} ({low:.3} to {high:.3})"
    );
    println!(
        "from the start to the first figure of the page      {first:.2} s (upper quartile {late:.2} s)"
    );
}

/// Follows a run's page to the end of the run. Returns the time from `began` to the first part with a rate.
fn watch(server: &Served, name: &str, began: Instant) -> std::thread::JoinHandle<Option<Duration>> {
    let path = format!("/runs/{name}/events");
    let (address, asked) = (
        server.address,
        request(server.address, "GET", &path, &[], ""),
    );
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("a server");
        stream.write_all(&asked).expect("sent");
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let mut first = None;
        for line in lines {
            if first.is_none() && line.contains("id=\"total\"") {
                first = Some(began.elapsed());
            }
            if line.contains("id=\"ended\"") {
                break;
            }
        }
        first
    })
}

/// Rate that all links of a run received together, in Gbit/s.
fn rate_of(site: &Site, name: &str) -> f64 {
    let file = site.runs().join(name).join("record.json");
    let record = json::read(&std::fs::read_to_string(file).expect("a record")).expect("a record");
    let test = &record.tests()[0];
    test.links.iter().map(|link| test.rate_of(link)).sum()
}
