//! Reports: a record in, a document out. No input or output here, no clock, and nothing that is not in the record.

pub mod csv;
pub mod figures;
pub mod header;
pub mod json;
pub mod picture;
pub mod status;
pub mod text;
mod wires;

/// Names folded in their natural order: `n[1-3],n10`.
fn fold(names: &[String]) -> String {
    let mut sorted = names.to_vec();
    sorted.sort_by_key(|name| natural(name));
    launcher::hosts::fold(&sorted)
}

/// A key that sorts numbers within names by their value.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (text, tail) = rest.split_at(digits);
        let end = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (number, tail) = tail.split_at(end);
        key.push((text.to_owned(), number.parse().unwrap_or(0)));
        rest = tail;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn names_are_folded_in_their_natural_order() {
        let names = ["n10", "n2", "n1", "n3"].map(str::to_owned);
        assert_eq!(fold(&names), "n[1-3,10]");
    }
}
