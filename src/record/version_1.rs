//! Converts a record of version 1 into one of version 2. Version 1 had a list for each kind of work, of which at most one was used, and a plan
//! with a list of tests and a list of jobs.

use serde_json::{Map, Value, json};

use super::{ImbRecord, LatencyRecord, LinktestRecord};

/// Converts a record; fails with a sentence if it is not one of version 1.
pub fn upgraded(record: Value) -> Result<Value, String> {
    let Value::Object(mut record) = record else {
        return Err("no object".to_owned());
    };
    let Some(Value::Object(mut plan)) = record.remove("plan") else {
        return Err("no plan".to_owned());
    };
    let job = last(&mut plan, "jobs")?;
    let job = job.and_then(|job| match job {
        Value::Object(job) => job.into_iter().next(),
        _ => None,
    });
    let (kind, work) = match job {
        Some(job) => job,
        None => {
            let fields = ["tests", "profile", "shortened", "samples", "repeats"];
            let fields = fields.map(|field| Some((field.to_owned(), plan.remove(field)?)));
            let work: Map<String, Value> = fields.into_iter().flatten().collect();
            ("acceptance".to_owned(), Value::Object(work))
        }
    };
    // What a list held did not name its kind; a list is empty if the work did not begin.
    let (list, unbegun) = match kind.as_str() {
        "acceptance" => ("tests", Ok(Value::Null)),
        "linktest" => ("jobs", serde_json::to_value(LinktestRecord::default())),
        "latency" => ("latencies", serde_json::to_value(LatencyRecord::default())),
        "imb" => ("patterns", serde_json::to_value(ImbRecord::default())),
        other => return Err(format!("a plan of {other}")),
    };
    let unbegun = unbegun.map_err(|error| error.to_string())?;
    let outcome = match list {
        "tests" => json!({"tests": record.remove(list).unwrap_or_else(|| json!([]))}),
        _ => last(&mut record, list)?.unwrap_or(unbegun),
    };
    plan.insert("work".to_owned(), json!({kind.as_str(): work}));
    plan.insert("version".to_owned(), json!(2));
    record.insert("plan".to_owned(), Value::Object(plan));
    record.insert("outcome".to_owned(), json!({kind: outcome}));
    record.insert("version".to_owned(), json!(2));
    Ok(Value::Object(record))
}

/// Removes a list and returns its last entry, if the list has any.
fn last(of: &mut Map<String, Value>, list: &str) -> Result<Option<Value>, String> {
    match of.remove(list) {
        None => Ok(None),
        Some(Value::Array(mut all)) => Ok(all.pop()),
        Some(_) => Err(format!("{list} is no list")),
    }
}
