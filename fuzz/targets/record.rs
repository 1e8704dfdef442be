//! Records: every record that can be read has every report, and reading it again gives the same record.

use pipebench::internals::outside;
use pipebench::internals::record::Record;
use pipebench::internals::report::compare::Comparison;
use pipebench::internals::report::merge::Merged;
use pipebench::internals::report::{
    csv, dry_run, header, json, junit, listing, metrics, page, preflight, text,
};

use crate::driver::magnitude;

pub const WORDS: &[&str] = &[
    "time",
    "volume",
    "files",
    "limiting",
    "starved",
    "held-back",
    "paced",
    "mixed",
    "unknown",
    "tcp",
    "pair",
    "unix",
    "crosses_switch",
    "interval_ns",
    "window_ns",
    "span_ns",
    "INVALID",
    "NOT JUDGED",
    "local",
    "bbr",
    "host_index",
];

pub fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    match json::read(&text) {
        Err(error) => {
            assert!(!error.to_string().contains(outside::steers), "{error:?}");
            super::misread(&error)
        }
        Ok(record) => follow(&record),
    }
}

/// Makes every document of a record, and checks that none is out of proportion.
pub fn follow(record: &Record) -> String {
    let written = json::write(record).expect("a record is JSON");
    let again = json::read(&written).expect("it was read before");
    let same = json::write(&again).expect("a record is JSON") == written;
    assert!(same, "read and written again it is another record");
    let summary = text::summary(record);
    let table = csv::write(record).expect("a record is a table");
    let documents = [
        header::options(&record.options),
        header::hosts(&record.hosts),
        dry_run::dry_run(&record.plan),
        text::troubles(&record.troubles).join("\n"),
        summary.clone(),
        table.clone(),
        junit::write(record).expect("a record has cases"),
        metrics::write(record),
        preflight::lines(record).join("\n"),
        listing::table(&[listing::row("run", record)]),
        Comparison::of(record, record).lines(100).join("\n"),
        Merged::of(std::slice::from_ref(record))
            .map_or_else(|error| error.to_string(), |one| one.lines().join("\n")),
    ];
    // The page brings its own words and styles, for any record.
    let page = page::write(
        record,
        Some(&Comparison::of(record, record)),
        std::slice::from_ref(record),
    );
    let steers = |letter: char| outside::steers(letter) && letter != '\n';
    for document in documents.iter().chain([&page]) {
        assert!(!document.contains(steers), "it steers: {document:?}");
    }
    let mut rows = ::csv::ReaderBuilder::new();
    for row in rows
        .has_headers(false)
        .flexible(true)
        .from_reader(table.as_bytes())
        .records()
    {
        for cell in &row.expect("a row") {
            let is_number = cell.len() == 1 || cell.parse::<f64>().is_ok();
            assert!(
                is_number || !cell.starts_with(['=', '+', '-', '@']),
                "a formula: {cell:?}"
            );
        }
    }
    assert!(
        page.len() <= 64 * (written.len() + 1024),
        "{} bytes",
        page.len()
    );
    let length: usize = documents.iter().map(String::len).sum();
    assert!(
        length <= 64 * (written.len() + 1024),
        "{length} bytes of {}",
        written.len()
    );
    let first_words = summary
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let words: String = first_words.take(12).flat_map(|word| [" ", word]).collect();
    format!(
        "record with a table of {} lines:{words}",
        magnitude(table.lines().count())
    )
}
