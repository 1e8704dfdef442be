//! The description of the API, for programs that are made from it. Tests hold it against the server.

/// The document.
pub const DOCUMENT: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_version_of_the_program() {
        let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
