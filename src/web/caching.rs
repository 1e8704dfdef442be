//! Answers that a client can keep and that are sent compressed. A client that has one sends its tag (`If-None-Match`) and gets the text anew only if it
//! has changed.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use sha2::{Digest, Sha256};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;

/// End of the tag of a compressed text. A strong tag names the bytes that are sent, so both forms of a text differ in it.
const PACKED: &str = "-gzip\"";

/// Strong tag (ETag) of a text, made of its digest.
pub(super) fn tag_of(text: &str) -> String {
    let digest = Sha256::digest(text);
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

/// Builds the answer with status 304 if the client has the text with this tag.
pub(super) fn unchanged(headers: &HeaderMap, tag: &str) -> Option<Response> {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut known = lists
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(|known| known.trim().trim_start_matches("W/"));
    let packed = packed_tag(tag);
    let known = known.find(|known| *known == "*" || *known == tag || *known == packed)?;
    let known = if known == "*" { tag } else { known };
    let head = [(header::ETAG, known), (header::VARY, "accept-encoding")];
    Some((StatusCode::NOT_MODIFIED, head).into_response())
}

/// Compresses the answers of a route by gzip for clients that accept it.
pub(super) fn compressed<S>(route: MethodRouter<S>) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let layer = CompressionLayer::new().quality(CompressionLevel::Fastest);
    let route: MethodRouter<S> = route.layer(layer);
    route.layer(middleware::map_response(mark))
}

/// The same for events: each one leaves at once, since the encoder writes out what it has whenever it waits for more. The matrix of 64 nodes is 111 kB
/// each second, and 8 kB compressed.
pub(super) fn compressed_events<S>(route: MethodRouter<S>) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let layer = CompressionLayer::new().quality(CompressionLevel::Fastest);
    route.layer(layer.compress_when(SizeAbove::default()))
}

/// Gives a compressed answer the tag of its form.
async fn mark(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    if headers.contains_key(header::CONTENT_ENCODING)
        && let Some(tag) = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok())
        && let Ok(packed) = HeaderValue::from_str(&packed_tag(tag))
    {
        headers.insert(header::ETAG, packed);
    }
    answer
}

fn packed_tag(tag: &str) -> String {
    tag.strip_suffix('"').unwrap_or(tag).to_owned() + PACKED
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: each page loaded its style and script anew.
    #[test]
    fn a_client_that_has_a_text_does_not_get_it_again() {
        let tag = tag_of("a { color: red; }");
        assert_ne!(tag, tag_of("a { color: blue; }"));
        let status = |known: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(known).unwrap());
            let answer = unchanged(&headers, &tag)?;
            let own = answer.headers()[header::ETAG].to_str().unwrap().to_owned();
            Some((answer.status().as_u16(), own))
        };
        let packed = packed_tag(&tag);
        assert_eq!(status(&tag), Some((304, tag.clone())));
        assert_eq!(status(&format!("\"x\", W/{packed}")), Some((304, packed)));
        assert_eq!(status("*"), Some((304, tag.clone())));
        assert_eq!(status("\"x\""), None);
        assert!(unchanged(&HeaderMap::new(), &tag).is_none());
    }

    /// Symptom: nothing was compressed. Two forms of a text with one strong tag are a fault of RFC 9110 (8.8.1).
    #[tokio::test]
    async fn a_text_is_compressed_for_clients_that_accept_it_and_has_its_own_tag() {
        use axum::body::{Body, to_bytes};
        use axum::http::Request;
        use tower::ServiceExt;

        let text = "a { color: red; }\n".repeat(100);
        let tag = tag_of(&text);
        let answer = |accepted: &'static str| {
            let body = ([(header::ETAG, tag.clone())], text.clone());
            let route = axum::routing::get(move || async move { body });
            let router: axum::Router = axum::Router::new().route("/", compressed(route));
            let request = Request::get("/").header(header::ACCEPT_ENCODING, accepted);
            router.oneshot(request.body(Body::empty()).unwrap())
        };
        let Ok(plain) = answer("identity").await;
        assert_eq!(plain.headers()[header::ETAG], tag);
        let Ok(packed) = answer("br, gzip").await;
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(packed.headers()[header::VARY], "accept-encoding");
        assert_eq!(packed.headers()[header::ETAG], packed_tag(&tag));
        let bytes = to_bytes(packed.into_body(), 1 << 20).await.unwrap();
        assert!(bytes.starts_with(&[0x1f, 0x8b]) && bytes.len() < text.len() / 4);
    }
}
