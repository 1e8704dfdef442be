//! Answers for a monitoring system: health, and metrics in OpenMetrics, which say how many runs wait and run, and how the last run of each group ended.
//! A series belongs to a group and its fabric, never to a run, so that an alert needs no name of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio::task::block_in_place;
use utoipa::ToSchema;

use crate::report::format::Format;
use crate::report::metrics::Exposition;
use crate::units;

use super::app::App;
use super::request::Request;
use super::run_store::{RunName, RunStore};
use super::state::{How, Outcome, Stage, State};

/// Maximum number of latest runs that are searched for the last run of each group.
const MOST_READ: usize = 1000;

type Labels = Vec<(&'static str, String)>;

/// Text of the answer that the server works.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is only described")]
enum Health {
    #[schema(rename = "ok\n")]
    Ok,
}

/// Whether the server works. Needs no token. Also at /health, outside of /api/v1.
#[utoipa::path(get, path = "/health", security(()),
    responses((status = 200, description = "It works.", body = inline(Health), content_type = "text/plain")))]
pub(super) async fn health() -> &'static str {
    "ok\n"
}

/// Metrics of the site in OpenMetrics. Also at /metrics, outside of /api/v1.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics",
    responses((status = 200, description = "The metrics.", body = String, content_type = "application/openmetrics-text")))]
pub(super) async fn measures(extract::State(app): extract::State<Arc<App>>) -> Response {
    let queue = &app.queue;
    let text = block_in_place(|| text(&queue.under_way(), &queue.run_store, queue.now_ms()));
    let kind = Format::Openmetrics.row().media_type;
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

fn text(under_way: &[State], run_store: &RunStore, now_ms: u64) -> String {
    let mut out = Exposition::default();
    let is_queued = |run: &&State| run.state == Stage::Queued;
    let queued = under_way.iter().filter(is_queued).count();
    let runs = [("queued", queued), ("running", under_way.len() - queued)];
    let runs = runs.map(|(word, count)| (vec![("state", word.to_owned())], count as f64));
    out.gauges("pipebench_runs", "Number of queued and running runs.", runs);
    let mut rates = BTreeMap::<Labels, f64>::new();
    for run in under_way {
        let request = run.name.parse().ok();
        let request = request.and_then(|name: RunName| run_store.request(&name));
        // A link test has no rates of nodes.
        let live = run.live.as_ref();
        let live = live.filter(|live| !live.received_bits_per_s.is_empty());
        if let Some((live, request)) = live.zip(request) {
            let received = live.received_bits_per_s.iter().copied();
            *rates.entry(labels(&request)).or_default() += units::sum(received) as f64;
        }
    }
    let help = "Rate that all nodes of a running run received in the last second.";
    out.gauges("pipebench_received_bits_per_second", help, rates);
    let last = last_runs(run_store);
    let verdicts = last.iter().map(|(labels, outcome)| {
        let card = outcome.card.as_ref();
        let word = card.map_or_else(|| "none".to_owned(), |card| card.verdict.to_string());
        ([labels.as_slice(), &[("verdict", word)]].concat(), 1.0)
    });
    let help =
        "Verdict of the last run of a group, none without a record. Cancelled runs do not count.";
    out.gauges("pipebench_last_run_verdict", help, verdicts);
    let codes = last.iter().filter_map(|(labels, outcome)| {
        let code = outcome.exit_code?;
        Some((labels.clone(), f64::from(code)))
    });
    let help = "Exit code of that run, unless it never began or was killed.";
    out.gauges("pipebench_last_run_exit_code", help, codes);
    let ages = last.iter().map(|(labels, outcome)| {
        let age_ms = now_ms.saturating_sub(outcome.ended_ms);
        (labels.clone(), age_ms as f64 / 1e3)
    });
    let help = "Time since the end of that run.";
    out.gauges("pipebench_last_run_age_seconds", help, ages);
    out.finish()
}

fn labels(request: &Request) -> Labels {
    let group = request.asked.fields.group.trim().to_owned();
    vec![("group", group), ("fabric", request.asked.fabric.clone())]
}

/// Outcome of the run of each group that ended last. A run that was cancelled, or ended with its server, says nothing about its hosts, so it does not
/// take the place of a run before it.
fn last_runs(run_store: &RunStore) -> BTreeMap<Labels, Outcome> {
    let mut last = BTreeMap::<Labels, Outcome>::new();
    for name in run_store.names().iter().take(MOST_READ) {
        let Some(outcome) = run_store.outcome(name) else {
            continue;
        };
        let Some(request) = run_store.request(name) else {
            continue;
        };
        let labels = labels(&request);
        let known_ms = last.get(&labels).map_or(0, |known| known.ended_ms);
        let is_cut = matches!(outcome.how, How::Cancelled | How::Server);
        if !is_cut && outcome.ended_ms > known_ms {
            last.insert(labels, outcome);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::VerdictWord;
    use crate::web::run_store::tests::request;
    use crate::web::state::Card;

    fn end(run_store: &RunStore, name: &str, how: How, ended_ms: u64, verdict: VerdictWord) {
        let card = Card {
            verdict,
            sentence: String::new(),
            took: String::new(),
            nodes: 2,
            weakest: String::new(),
            hosts: String::new(),
            started_ms: 0,
            kind: String::new(),
        };
        let outcome = Outcome {
            how,
            exit_code: Some(10),
            ended_ms,
            card: (how == How::Ended).then_some(card),
            complaint: None,
        };
        run_store
            .set_outcome(&name.parse().unwrap(), &outcome)
            .unwrap();
    }

    /// Symptom: while another run waited or ran, no sample said how the last run had ended.
    #[test]
    fn the_verdict_of_a_group_stays_while_its_next_run_waits() {
        let folder = tempfile::tempdir().unwrap();
        let run_store = RunStore::open(folder.path()).unwrap();
        let names = [
            "pb-20261121-101500-abcdef",
            "pb-20261121-101501-abcdef",
            "pb-20261121-101502-abcdef",
            "pb-20261121-101503-abcdef",
            "pb-20261121-101504-abcdef",
        ];
        for (name, fabric) in
            names
                .iter()
                .zip(["leaf 3", "leaf 3", "leaf \"4\"", "leaf 3", "leaf 3"])
        {
            let mut request = request(name, 90_000, fabric);
            "rack 7".clone_into(&mut request.asked.fields.group);
            run_store.add(&request).unwrap();
        }
        end(&run_store, names[0], How::Ended, 10_000, VerdictWord::Pass);
        end(&run_store, names[1], How::Ended, 20_500, VerdictWord::Fail);
        end(&run_store, names[2], How::Lost, 30_000, VerdictWord::Pass);
        end(
            &run_store,
            names[3],
            How::Cancelled,
            40_000,
            VerdictWord::Pass,
        );
        let waiting: RunName = names[4].parse().unwrap();
        let under_way = [run_store.state(&waiting, 90_500).unwrap()];
        assert_eq!(under_way[0].state, Stage::Queued);
        let lines = text(&under_way, &run_store, 90_500);
        let samples: Vec<&str> = lines
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        assert_eq!(
            samples,
            [
                "pipebench_runs{state=\"queued\"} 1",
                "pipebench_runs{state=\"running\"} 0",
                "pipebench_last_run_verdict{group=\"rack 7\",fabric=\"leaf \\\"4\\\"\",verdict=\"none\"} 1",
                "pipebench_last_run_verdict{group=\"rack 7\",fabric=\"leaf 3\",verdict=\"FAIL\"} 1",
                "pipebench_last_run_exit_code{group=\"rack 7\",fabric=\"leaf \\\"4\\\"\"} 10",
                "pipebench_last_run_exit_code{group=\"rack 7\",fabric=\"leaf 3\"} 10",
                "pipebench_last_run_age_seconds{group=\"rack 7\",fabric=\"leaf \\\"4\\\"\"} 60.5",
                "pipebench_last_run_age_seconds{group=\"rack 7\",fabric=\"leaf 3\"} 70",
            ]
        );
        assert!(lines.ends_with("# EOF\n"), "{lines}");
    }
}
