//! Rules of OpenMetrics that every text of metrics must satisfy.

use std::collections::BTreeSet;

/// Checks a text: an end mark, one type per family, no series twice, finite values. Returns its series.
#[track_caller]
pub fn series<'text>(name: &str, text: &'text str) -> BTreeSet<&'text str> {
    let mut families = BTreeSet::new();
    let mut samples = BTreeSet::new();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.last(), Some(&"# EOF"), "{name}");
    for line in &lines[..lines.len() - 1] {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let family = rest.split(' ').next().expect("a name");
            assert!(families.insert(family), "{name}: {family} twice");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let value: f64 = value.parse().expect("a number");
            assert!(value.is_finite(), "{name}: {line}");
            assert!(samples.insert(series), "{name}: {series} twice");
            let own = series.split('{').next().expect("a name");
            let own = own.strip_suffix("_info").unwrap_or(own);
            assert!(families.contains(own), "{name}: {own} has no type");
        }
    }
    samples
}
