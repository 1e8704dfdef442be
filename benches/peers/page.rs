//! Writes the tables into docs/dev/performance.md, between two marks; the rest of the page stays.

use std::fs;

use super::table::{Table, summary};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dev/performance.md");
const BEGIN: &str = "<!-- peers:begin -->";
const END: &str = "<!-- peers:end -->";

/// Replaces the text between the marks.
pub fn write(header: &str, tables: &[Table]) -> Result<(), String> {
    let text = fs::read_to_string(PAGE)
        .map_err(|why| format!("docs/dev/performance.md: cannot read: {why}"))?;
    let each: Vec<String> = tables.iter().map(Table::to_string).collect();
    let content = format!("{header}\n\n{}\n{}", summary(tables), each.join("\n"));
    let text = replaced(&text, &content)?;
    fs::write(PAGE, text).map_err(|why| format!("docs/dev/performance.md: cannot write: {why}"))
}

/// Returns the text with new content between the marks.
pub fn replaced(text: &str, content: &str) -> Result<String, String> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) =
        parts.ok_or_else(|| format!("docs/dev/performance.md: no {BEGIN} before an {END}"))?;
    Ok(format!("{before}{BEGIN}\n{content}{END}{after}"))
}
