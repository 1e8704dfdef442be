//! The OpenAPI description of the API, for generated clients. The tests below compare its paths and types with the code; `tests/openapi.rs` compares
//! answers of a server with it.

/// Text of the OpenAPI document, as JSON.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::http::StatusCode;
    use serde::Serialize;
    use serde_json::Value;

    use super::*;
    use crate::record::Live;
    use crate::report::format::Format;
    use crate::web::answers::Problem;
    use crate::web::api::SiteAnswer;
    use crate::web::request::Fields;
    use crate::web::run_store::RunStore;
    use crate::web::run_store::tests::request;
    use crate::web::site::tests::site;

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    fn keys(object: &Value) -> BTreeSet<String> {
        object.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn the_document_has_the_version_of_the_program() {
        assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
    }

    /// Symptom: health, metrics and downloads were not described.
    #[test]
    fn each_route_is_described_with_its_methods_and_no_other_is() {
        let mut routes = BTreeSet::new();
        for route in include_str!("api.rs").split(".route(\"").skip(1) {
            let (path, rest) = route.split_once('"').unwrap();
            let handlers = rest.lines().next().unwrap();
            for method in ["get", "post"] {
                if handlers.contains(&format!("{method}(")) {
                    routes.insert((path.to_owned(), method.to_owned()));
                }
            }
        }
        let document = document();
        let paths = document["paths"].as_object().unwrap().iter();
        let described = paths.flat_map(|(path, methods)| {
            let methods = keys(methods).into_iter();
            methods.map(|method| (path.clone(), method))
        });
        assert_eq!(described.collect::<BTreeSet<_>>(), routes);
        assert!(routes.len() > 10, "{routes:?}");
    }

    #[test]
    fn each_file_of_a_run_is_described_with_its_kind() {
        let document = document();
        let download = &document["paths"]["/runs/{name}/{file}"]["get"];
        let files = &download["parameters"][1]["schema"]["enum"];
        let rows = Format::ALL.map(Format::row);
        let own: BTreeSet<&str> = rows.iter().map(|row| row.file).collect();
        let described = files.as_array().unwrap().iter();
        let described = described.filter_map(Value::as_str);
        assert_eq!(described.collect::<BTreeSet<_>>(), own);
        let kind = |row: &crate::report::format::Row| {
            let kind = row.media_type.split(';').next().unwrap_or_default();
            kind.to_owned()
        };
        let own: BTreeSet<String> = rows.iter().map(kind).collect();
        assert_eq!(keys(&download["responses"]["200"]["content"]), own);
    }

    #[test]
    fn each_type_is_described_with_its_fields_and_no_others() {
        fn expect(name: &str, value: impl Serialize, optional: &[&str]) {
            let document = document();
            let schema = &document["components"]["schemas"][name];
            let own = keys(&serde_json::to_value(value).unwrap());
            assert_eq!(keys(&schema["properties"]), own, "{name}");
            let required = schema["required"].as_array().into_iter().flatten();
            let required: BTreeSet<&str> = required.filter_map(Value::as_str).collect();
            let mut always: BTreeSet<&str> = own.iter().map(String::as_str).collect();
            always.retain(|field| !optional.contains(field));
            assert_eq!(required, always, "{name}");
        }
        let folder = tempfile::tempdir().unwrap();
        let run_store = RunStore::open(folder.path()).unwrap();
        let name = "pb-20261121-101500-abcdef";
        let request = request(name, 1000, "a");
        run_store.add(&request).unwrap();
        let state = run_store.state(&name.parse().unwrap(), 1000).unwrap();
        expect("State", state, &[]);
        expect("Live", Live::default(), &[]);
        expect("Extent", &request.extent, &[]);
        expect("Site", SiteAnswer::of(&site()), &[]);
        let fields = serde_json::to_value(Fields::default()).unwrap();
        let fields = keys(&fields);
        let optional: Vec<&str> = fields.iter().map(String::as_str).collect();
        expect("Fields", Fields::default(), &optional);
        let problem = Problem::new(StatusCode::NOT_FOUND, "there is no such run", Some("name"));
        expect("Problem", problem, &["field"]);
    }
}
