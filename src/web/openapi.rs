//! The OpenAPI description of the API, for generated clients. Tests check it against the server.

/// Text of the OpenAPI document, as JSON.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_version_of_the_program() {
        let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
