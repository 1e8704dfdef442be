//! JSON from outside: the value that was read steers no terminal, has no number beyond figures, and otherwise equals the input.

use pipebench::internals::outside;
use serde_json::{Map, Value};

use super::one_line;

pub const WORDS: &[&str] = &[
    "\\u001b",
    "\\u202E",
    "\\ud83d\\ude00",
    "\\n",
    "\\\\",
    "\\\"",
    "\"seal\": \"",
    "\u{9b}",
    "\u{2066}",
];

pub fn run(input: &[u8]) -> String {
    if std::str::from_utf8(input).is_err() {
        let skipped = outside::read::<serde::de::IgnoredAny>(input);
        return one_line(&skipped.expect_err("it is not UTF-8 text"), 100);
    }
    let plain = serde_json::from_slice::<Value>(input);
    let kept: Result<Value, _> = outside::read_but(input, &["seal"]);
    match outside::read::<Value>(input) {
        Err(error) => {
            // Of two values with the same key, the plain one has the last.
            let is_large = error.to_string().ends_with("is too large a number");
            assert!(kept.is_err(), "with ends of lines it is one");
            assert!(is_large || plain.is_err(), "only cleaned it is none");
            one_line(&error, 1000)
        }
        Ok(value) => {
            let kept = kept.expect("the same but for ends of lines");
            assert!(most(&value) <= 1e100, "no figure can be made of it");
            // Two keys can become the same when they are cleaned.
            let mut collided = false;
            assert_eq!(cleaned(&value, &mut collided), value);
            assert_eq!(cleaned(&kept, &mut collided), value);
            let same = plain.map(|plain| cleaned(&plain, &mut collided) == value);
            assert!(
                collided || !matches!(same, Ok(false)),
                "it is another value"
            );
            format!("read, {}", same.is_ok())
        }
    }
}

/// Greatest number without its sign.
fn most(value: &Value) -> f64 {
    let all = |sofar: f64, one: &Value| sofar.max(most(one));
    match value {
        Value::Number(own) => own.as_f64().unwrap_or(0.0).abs(),
        Value::Array(list) => list.iter().fold(0.0, all),
        Value::Object(map) => map.values().fold(0.0, all),
        Value::Null | Value::Bool(_) | Value::String(_) => 0.0,
    }
}

fn cleaned(value: &Value, collided: &mut bool) -> Value {
    let text = |text: &str| outside::clean(text).into_owned();
    match value {
        Value::String(own) => text(own).into(),
        Value::Array(all) => all.iter().map(|one| cleaned(one, collided)).collect(),
        Value::Object(all) => {
            let pairs = all.iter();
            let own: Map<String, Value> = pairs
                .map(|(key, one)| (text(key), cleaned(one, collided)))
                .collect();
            *collided |= own.len() != all.len();
            own.into()
        }
        other => other.clone(),
    }
}
