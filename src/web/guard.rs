//! Access control: the token, the session that a browser gets for it, forms from our own pages, host names under which we answer, and limits per
//! minute.
//!
//! The only state in memory is counters. A session is signed with the token, so a restarted server and a CGI program accept it too.

use std::net::IpAddr;
use std::path::Path;

use axum::extract::Request;
use axum::http::{HeaderMap, Method, Uri, header};
use cookie::Cookie;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::logouts::Logouts;
use super::rate_limit::RateLimit;
use super::run_store::RunName;
use super::site::Site;
use super::token::{self, KEY, TokenError};

/// File of ended sessions in the folder of runs.
const LOGOUTS: &str = ".logouts";
/// Name of the cookie.
const COOKIE: &str = "pipebench";
/// Lifetime of a session in seconds: half a day.
const SESSION_S: u64 = 12 * 3600;
/// Lifetime of a login link in seconds.
const LINK_S: u64 = 600;
/// Lifetime of a ticket in milliseconds: the time to answer the question before a start.
const TICKET_MS: u64 = 60 * 60 * 1000;
/// Maximum number of wrong tokens per minute from one address.
const GUESSES: u32 = 10;

/// Address that stands for requests without one.
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Sender of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Asker {
    /// True if the sender can do anything, not only read.
    pub is_known: bool,
    /// True if the request has the token itself. Programs send it; no browser does so unasked.
    pub has_token: bool,
    /// True if the request has a wrong token.
    pub has_wrong_token: bool,
    /// Cookie value of the browser's session. Forms of a session must have its mark.
    pub session: Option<String>,
    /// User name from the web server.
    pub user: Option<String>,
    /// Address of the client.
    pub from: Option<IpAddr>,
    /// Page of this site to which a login leads. `None`: the first page.
    pub page: Option<String>,
}

/// Identifies senders and decides what they can do.
pub(super) struct Guard {
    /// Random signing key of this site. It prevents offline guessing of the token from signed values.
    key: Hmac<Sha256>,
    token: String,
    logouts: Logouts,
    names: Vec<String>,
    /// Proxies that are trusted to name the client.
    proxies: Vec<IpAddr>,
    /// True if reading needs the token even from this machine.
    private: bool,
    /// True if reading never needs the token.
    public: bool,
    /// True if browsers reach the site through a proxy with TLS.
    tls: bool,
    guesses: RateLimit,
    starts: RateLimit,
}

impl Guard {
    /// Reads the site's token, or creates it. `open` is true if other machines can reach the server. `random` returns the digits of a new token. If the
    /// site's file has settings for a proxy, reading needs the token.
    /// Attempts are counted in files of `folder`, or in memory without one.
    pub(super) fn new(
        site: &Site,
        open: bool,
        folder: Option<&Path>,
        random: fn() -> String,
    ) -> Result<Self, TokenError> {
        let token = token::of(&site.token_file, random)?;
        let key = token::of(&site.results.join(KEY), random)?;
        let file = |name: &str| folder.map(|folder| folder.join(name));
        // A proxy can forward a request of any client without a trace of it.
        let is_proxied = site.tls || !site.base.is_empty() || !site.proxies.is_empty();
        Ok(Self {
            key: Hmac::new_from_slice(key.as_bytes()).expect("HMAC takes keys of any length"),
            token,
            logouts: Logouts(site.results.join(LOGOUTS)),
            names: site.names.iter().map(|name| name.to_lowercase()).collect(),
            proxies: site.proxies.clone(),
            private: site.private || (open || is_proxied) && !site.public_reading,
            public: site.public_reading,
            tls: site.tls,
            guesses: RateLimit::new(GUESSES, file(".guesses")),
            starts: RateLimit::new(site.limits.starts_per_minute, file(".starts")),
        })
    }

    /// Client address of a request. If a proxy of the site forwards the request, this is the last address in its list that is no proxy of the site.
    pub(super) fn origin(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<IpAddr> {
        let is_proxy = |address: &IpAddr| self.proxies.contains(address);
        let peer = peer.map(|address| address.to_canonical());
        if !peer.as_ref().is_some_and(is_proxy) {
            return peer;
        }
        let lists = headers.get_all("x-forwarded-for").iter();
        let lists: Vec<&str> = lists.filter_map(|value| value.to_str().ok()).collect();
        let named = lists.iter().rev().flat_map(|list| list.rsplit(','));
        // The client can have made up all entries before one that is no address.
        let mut known = named
            .map_while(|word| word.trim().parse::<IpAddr>().ok())
            .map(|address| address.to_canonical());
        known.find(|address| !is_proxy(address)).or(peer)
    }

    /// True if an address is a proxy of the site, which many clients share.
    pub(super) fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.contains(&address.to_canonical())
    }

    /// True if a client without token or session can read: from this machine under its own name, or from everywhere if the site allows it. A proxy
    /// on this machine can forward other clients without any header. It is another user's process, which `near` shows where that is known.
    pub(super) fn may_read(&self, headers: &HeaderMap, peer: Option<IpAddr>, near: Near) -> bool {
        let name = text(headers, header::HOST.as_str()).map_or("", host_of);
        let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_here = name.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address| address.is_loopback());
        let peer = peer.map(|address| address.to_canonical());
        let is_direct = peer.is_none_or(|peer| peer.is_loopback())
            && near == Near::OwnUser
            && !headers.keys().any(|name| is_of_proxy(name.as_str()));
        let is_near = is_here && is_direct;
        !self.private && (self.public || is_near)
    }

    /// True if the site answers under the host name in these headers. A foreign page can have its own name resolve to us (DNS rebinding).
    pub(super) fn is_own_name(&self, headers: &HeaderMap) -> bool {
        let Some(host) = text(headers, header::HOST.as_str()) else {
            return false;
        };
        let name = host_of(host).to_lowercase();
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_address || name == "localhost" || self.names.contains(&name)
    }

    /// Identifies the sender by the headers of a request. A wrong token counts as a guess. The error means too many guesses.
    pub(super) fn see(
        &self,
        headers: &HeaderMap,
        from: Option<IpAddr>,
        now_ms: u64,
    ) -> Result<Asker, TooMany> {
        let mut asker = Asker {
            from,
            ..Asker::default()
        };
        // Other schemes are for a proxy.
        let bearer =
            text(headers, header::AUTHORIZATION.as_str()).and_then(|value| value.split_once(' '));
        if let Some((_, token)) = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        {
            asker.has_token = self.is_token(token, from, now_ms)?;
            asker.has_wrong_token = !asker.has_token;
            asker.is_known = asker.has_token;
            return Ok(asker);
        }
        let cookies = headers.get_all(header::COOKIE).iter();
        let session = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(Cookie::split_parse)
            .filter_map(Result::ok)
            .find(|cookie| cookie.name() == COOKIE);
        if let Some(value) = session.map(|cookie| cookie.value().to_owned())
            && self.is_session(&value, now_ms)
        {
            asker.is_known = true;
            asker.session = Some(value);
        }
        Ok(asker)
    }

    /// True if this is the token. The error means a wrong token, with too many wrong ones from its address within this minute. The right token is
    /// never refused: a client that shares an address with an attacker must not be locked out.
    pub(super) fn is_token(
        &self,
        text: &str,
        from: Option<IpAddr>,
        now_ms: u64,
    ) -> Result<bool, TooMany> {
        // Comparing the codes of both texts takes the same time for any text.
        let own = self.sign("token", &self.token);
        if self.is_signed("token", text.trim(), &own) {
            return Ok(true);
        }
        match self.guesses.count(from.unwrap_or(HERE), now_ms) {
            true => Ok(false),
            false => Err(TooMany),
        }
    }

    /// Counts a start. Returns false after too many starts from this address within this minute.
    pub(super) fn count_start(&self, from: Option<IpAddr>, now_ms: u64) -> bool {
        self.starts.count(from.unwrap_or(HERE), now_ms)
    }

    /// Opens a session and returns its cookie. `nonce` names the session; `path` is the prefix of every path.
    pub(super) fn open_session(&self, nonce: &str, now_ms: u64, path: &str) -> String {
        let until = now_ms / 1000 + SESSION_S;
        let value = format!("{until}.{nonce}");
        let value = format!("{value}.{}", self.sign("session", &value));
        self.cookie(&value, i64::try_from(SESSION_S).unwrap_or(i64::MAX), path)
    }

    /// Text of a login link, for the user who starts the server. It expires, and opens one session.
    pub(super) fn link(&self, nonce: &str, now_ms: u64) -> String {
        let value = format!("{}.{nonce}", now_ms / 1000 + LINK_S);
        let code = self.sign("link", &value);
        format!("{value}.{code}")
    }

    /// True if this is a login link of ours that was not used before.
    pub(super) fn use_link(&self, link: &str, now_ms: u64) -> bool {
        let now_s = now_ms / 1000;
        let is_ours = link
            .rsplit_once('.')
            .is_some_and(|(value, code)| self.is_signed("link", value, code));
        parts_of(link).is_some_and(|(until_s, nonce)| {
            is_ours && until_s > now_s && self.logouts.end(nonce, until_s, now_s).unwrap_or(false)
        })
    }

    /// Ends a session, copies of its cookie included. Returns the cookie that deletes it in the browser. The error means: the logout is not stored.
    pub(super) fn close_session(
        &self,
        asker: &Asker,
        now_ms: u64,
        path: &str,
    ) -> std::io::Result<String> {
        if let Some((until_s, nonce)) = asker.session.as_deref().and_then(parts_of) {
            self.logouts.end(nonce, until_s, now_ms / 1000)?;
        }
        Ok(self.cookie("", 0, path))
    }

    fn cookie(&self, value: &str, age_s: i64, path: &str) -> String {
        let path = if path.is_empty() { "/" } else { path };
        Cookie::build((COOKIE, value))
            .path(path.to_owned())
            .http_only(true)
            .secure(self.tls)
            // `Lax` lets links in messages send the cookie too. Requests that change something are posted, and need a mark as well.
            .same_site(cookie::SameSite::Lax)
            .max_age(cookie::time::Duration::seconds(age_s))
            .build()
            .to_string()
    }

    fn is_session(&self, value: &str, now_ms: u64) -> bool {
        let parts = parts_of(value).zip(value.rsplit_once('.'));
        parts.is_some_and(|((until_s, nonce), (signed, code))| {
            until_s > now_ms / 1000
                && self.is_signed("session", signed, code)
                && !self.logouts.has(nonce)
        })
    }

    /// Signed ticket in the question before a start. With it, answering the question twice starts one run.
    pub(super) fn ticket(&self, name: &str, now_ms: u64) -> String {
        let text = format!("{name}.{now_ms}");
        let code = self.sign("run", &text);
        format!("{text}.{code}")
    }

    /// The run of a ticket, if we signed it and it has not expired.
    pub(super) fn run_of(&self, ticket: &str, now_ms: u64) -> Option<RunName> {
        let (text, code) = ticket.rsplit_once('.')?;
        let (name, drawn_ms) = text.split_once('.')?;
        let age_ms = now_ms.checked_sub(drawn_ms.parse().ok()?)?;
        let is_ours = self.is_signed("run", text, code);
        (is_ours && age_ms < TICKET_MS).then(|| name.parse().ok())?
    }

    /// Mark in the forms of an asker (CSRF token).
    pub(super) fn mark(&self, asker: &Asker) -> String {
        self.sign("form", &identity(asker))
    }

    /// True if a form comes from our own pages: it has the asker's mark, and the browser reports no foreign page.
    pub(super) fn is_own_form(&self, asker: &Asker, mark: &str, headers: &HeaderMap) -> bool {
        self.is_from_here(headers) && self.is_signed("form", &identity(asker), mark)
    }

    /// True unless the browser reports that a foreign page sent the request (`Sec-Fetch-Site`, `Origin`).
    pub(super) fn is_from_here(&self, headers: &HeaderMap) -> bool {
        let site = text(headers, "sec-fetch-site");
        if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return false;
        }
        let host = text(headers, header::HOST.as_str());
        text(headers, header::ORIGIN.as_str()).is_none_or(|origin| {
            let own = origin.split_once("://").map(|(_, own)| own);
            own.zip(host)
                .is_some_and(|(own, host)| own.eq_ignore_ascii_case(host))
        })
    }

    fn sign(&self, what: &str, text: &str) -> String {
        let code = self.code(what, text).finalize().into_bytes();
        code.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn is_signed(&self, what: &str, text: &str, code: &str) -> bool {
        self.code(what, text).verify_slice(&bytes_of(code)).is_ok()
    }

    fn code(&self, what: &str, text: &str) -> Hmac<Sha256> {
        let mut code = self.key.clone();
        // Sign the token as well: a new token invalidates all earlier signatures.
        for part in [what, &self.token, text] {
            code.update(&(part.len() as u64).to_le_bytes());
            code.update(part.as_bytes());
        }
        code
    }
}

/// User name from the web server. Only the CGI program sets it; no header does.
#[derive(Debug, Clone)]
pub(super) struct RemoteUser(pub String);

/// Owner of the process at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Near {
    /// The user who runs the server.
    OwnUser,
    /// Another or an unknown user, or a web server, which forwards other clients.
    OtherUser,
}

/// End of a session in seconds since 1970, and its nonce.
fn parts_of(session: &str) -> Option<(u64, &str)> {
    let mut parts = session.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?))
}

/// True for headers by which proxies name the client, under any name in use.
fn is_of_proxy(name: &str) -> bool {
    matches!(name, "forwarded" | "via" | "x-real-ip")
        || name.starts_with("x-forwarded")
        || name.starts_with("x-original")
        || name.ends_with("client-ip")
        || name.ends_with("connecting-ip")
}

/// The page that a request asks for, below the base of all paths. Of a form, it is the page that has the form.
pub(super) fn page_of(request: &Request, base: &str) -> Option<String> {
    if is_reading(request.method()) {
        return own_page(request.uri().path_and_query()?.as_str());
    }
    let headers = request.headers();
    let from: Uri = text(headers, header::REFERER.as_str())?.parse().ok()?;
    let host = text(headers, header::HOST.as_str())?;
    let is_here = from.authority()?.as_str().eq_ignore_ascii_case(host);
    let path = from.path_and_query().filter(|_| is_here)?.as_str();
    own_page(path.strip_prefix(base)?)
}

/// A page to which a login can lead, with its query. Browsers take `//` and `/\` for another site, and skip tabs between them.
pub(super) fn own_page(page: &str) -> Option<String> {
    /// The page is a field of the login form, which is encoded twice.
    const MOST: usize = 4096;
    let is_odd = page.starts_with("//") || page.contains('\\') || page.len() > MOST;
    let is_own = page.starts_with('/') && page.bytes().all(|byte| byte.is_ascii_graphic());
    (is_own && !is_odd && page != "/").then(|| page.to_owned())
}

/// A client made too many attempts within a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

/// True if a method changes nothing.
pub(super) fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn identity(asker: &Asker) -> String {
    match (&asker.session, &asker.user) {
        (Some(session), _) => format!("session {session}"),
        (None, Some(user)) => format!("user {user}"),
        (None, None) => String::new(),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Host name in `name:port` or `[address]:port`.
fn host_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |digit: char| u8::try_from(digit.to_digit(16)?).ok();
    let digits: Option<Vec<u8>> = hex.chars().map(digit).collect();
    let digits = digits.unwrap_or_default();
    let byte = |pair: &[u8]| pair.iter().fold(0_u8, |byte, digit| byte << 4 | digit);
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::web::site::tests::site;

    fn guard(proxies: &[&str]) -> (tempfile::TempDir, Guard) {
        let folder = tempfile::tempdir().unwrap();
        let site = Site {
            token_file: folder.path().join("token"),
            results: folder.path().to_owned(),
            proxies: proxies.iter().map(|text| text.parse().unwrap()).collect(),
            ..site()
        };
        let guard = Guard::new(&site, false, None, || "x".repeat(32)).unwrap();
        (folder, guard)
    }

    #[test]
    fn whoever_comes_by_a_proxy_is_not_near() {
        let (_folder, guard) = guard(&[]);
        let may = |peer: &str, headers: &[(&'static str, &'static str)]| {
            let pairs = headers.iter().map(|(name, value)| {
                let name = axum::http::HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            });
            guard.may_read(&pairs.collect(), Some(peer.parse().unwrap()), Near::OwnUser)
        };
        let here = ("host", "localhost:8080");
        assert!(may("127.0.0.1", &[here]) && may("::1", &[("host", "[::1]:8080")]));
        assert!(!may("10.0.0.1", &[here]) && !may("127.0.0.1", &[("host", "bench")]));
        for name in [
            "x-forwarded-for",
            "x-forwarded-host",
            "x-real-ip",
            "x-client-ip",
            "true-client-ip",
            "cf-connecting-ip",
            "forwarded",
            "via",
        ] {
            assert!(!may("127.0.0.1", &[here, (name, "127.0.0.1")]), "{name}");
        }
        // A proxy that sends no header is another user's process.
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("127.0.0.1:8080"));
        let peer = Some(HERE);
        assert!(guard.may_read(&headers, peer, Near::OwnUser));
        assert!(!guard.may_read(&headers, peer, Near::OtherUser));
    }

    /// Symptom: the first start said "(token in token)", and a user had to find the file and copy its text.
    #[test]
    fn a_login_link_opens_one_session_and_expires() {
        let (_folder, guard) = guard(&[]);
        let link = guard.link("abc", 5000);
        assert!(!guard.use_link(&format!("{link}0"), 5000));
        assert!(!guard.use_link(&link.replacen("605", "9605", 1), 5000));
        assert!(!guard.use_link(&link, 605_000));
        assert!(guard.use_link(&link, 604_000));
        assert!(!guard.use_link(&link, 604_000));
    }

    /// Symptom: with `proxy_pass` alone, nginx sends a local Host and no address of its client, and everyone could read.
    #[test]
    fn a_site_that_is_set_up_for_a_proxy_wants_the_token_from_every_reader() {
        let folder = tempfile::tempdir().unwrap();
        let own = Site {
            token_file: folder.path().join("token"),
            results: folder.path().to_owned(),
            ..site()
        };
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("127.0.0.1:8080"));
        let may_read = |site: Site| {
            let guard = Guard::new(&site, false, None, || "x".repeat(32)).unwrap();
            guard.may_read(&headers, Some(HERE), Near::OwnUser)
        };
        assert!(may_read(own.clone()));
        let (base, proxies) = ("/bench".to_owned(), vec![HERE]);
        assert!(!may_read(Site {
            tls: true,
            ..own.clone()
        }));
        assert!(!may_read(Site {
            base,
            ..own.clone()
        }));
        assert!(!may_read(Site {
            proxies,
            ..own.clone()
        }));
        let (tls, public_reading) = (true, true);
        assert!(may_read(Site {
            tls,
            public_reading,
            ..own
        }));
    }

    /// Symptom: "Run again" without a session led to the first page after the login. No login may lead to another site.
    #[test]
    fn a_login_leads_to_a_page_of_this_site_alone() {
        for page in [
            "/runs",
            "/?again=pb-1",
            "/confirm?hosts=n%5B1-4%5D&by=a+b",
            "/runs?q=//x",
        ] {
            assert_eq!(own_page(page).as_deref(), Some(page));
        }
        let long = format!("/{}", "x".repeat(5000));
        for page in [
            "",
            "/",
            "//evil.example",
            "/\\evil.example",
            "/\t/evil.example",
            "https://evil.example/",
            "evil.example",
            "/runs\r\nx: y",
            "/caf\u{e9}",
            &long,
        ] {
            assert_eq!(own_page(page), None, "{page:?}");
        }
        let of = |method: &str, uri: &str, from: &str| {
            let request = Request::builder().method(method).uri(uri);
            let request = request.header("host", "bench").header("referer", from);
            page_of(&request.body(axum::body::Body::empty()).unwrap(), "/b")
        };
        let form = "http://bench/b/confirm?group=x";
        assert_eq!(of("GET", "/runs?q=x", form).as_deref(), Some("/runs?q=x"));
        assert_eq!(
            of("POST", "/start", form).as_deref(),
            Some("/confirm?group=x")
        );
        for from in [
            "http://evil.example/b/confirm",
            "http://bench/best",
            "/b/runs",
            "x",
        ] {
            assert_eq!(of("POST", "/start", from), None, "{from}");
        }
    }

    #[test]
    fn the_right_token_is_taken_however_many_wrong_ones_came_from_its_address() {
        let (_folder, guard) = guard(&[]);
        let try_token = |text: &str| guard.is_token(text, None, 1_000);
        for _ in 0..GUESSES {
            assert_eq!(try_token("wrong"), Ok(false));
        }
        assert_eq!(try_token("wrong"), Err(TooMany));
        assert_eq!(try_token(&"x".repeat(32)), Ok(true));
    }

    #[test]
    fn a_copied_cookie_opens_nothing_after_its_session_was_logged_out() {
        let (_folder, guard) = guard(&[]);
        let cookie = |nonce: &str| {
            let made = guard.open_session(nonce, 5_000, "");
            let value = made.split(';').next().unwrap().split_once('=').unwrap().1;
            value.to_owned()
        };
        let (one, other) = (cookie("aa"), cookie("bb"));
        let asker = |session: &str| {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_str(&format!("{COOKIE}={session}")).unwrap();
            headers.insert(header::COOKIE, value);
            guard.see(&headers, None, 6_000).unwrap()
        };
        assert!(asker(&one).is_known && asker(&other).is_known);
        guard.close_session(&asker(&one), 6_000, "").unwrap();
        assert!(!asker(&one).is_known && asker(&other).is_known);
    }

    /// A code by a token alone let the owner of one cookie guess the token offline.
    #[test]
    fn the_same_token_signs_differently_with_another_key() {
        let (_one, guard) = guard(&[]);
        let (two, _) = self::guard(&[]);
        std::fs::write(two.path().join(KEY), "y".repeat(32)).unwrap();
        let site = Site {
            token_file: two.path().join("token"),
            results: two.path().to_owned(),
            ..site()
        };
        let other = Guard::new(&site, false, None, || "x".repeat(32)).unwrap();
        assert!(guard.token == other.token);
        let code = guard.sign("session", "1.aa");
        assert!(guard.is_signed("session", "1.aa", &code));
        assert!(!other.is_signed("session", "1.aa", &code));
    }

    #[test]
    fn a_ticket_is_ours_and_not_old() {
        let (_folder, guard) = guard(&[]);
        let name = "pb-20261121-101500-abcdef";
        let ticket = guard.ticket(name, 5_000);
        let run = |ticket: &str, now_ms| guard.run_of(ticket, now_ms).map(|run| run.to_string());
        assert_eq!(run(&ticket, 5_000).as_deref(), Some(name));
        assert_eq!(run(&ticket, 4_999), None);
        assert_eq!(run(&ticket, 5_000 + TICKET_MS), None);
        assert_eq!(run(&ticket.replace("abcdef", "abcdee"), 5_000), None);
        assert_eq!(run(&ticket.replace(".5000.", ".6000."), 6_000), None);
        assert_eq!(run("", 0), None);
        assert_eq!(run(&guard.ticket("../token", 5_000), 5_000), None);
    }

    #[test]
    fn only_proxies_of_the_site_say_whom_they_bring_and_only_what_they_have_written_themselves() {
        let (_folder, guard) = guard(&["10.0.0.5", "10.0.0.6"]);
        let from = |peer: &str, lists: &[&str]| {
            let mut headers = HeaderMap::new();
            for list in lists {
                headers.append("x-forwarded-for", HeaderValue::from_str(list).unwrap());
            }
            guard
                .origin(&headers, Some(peer.parse().unwrap()))
                .unwrap()
                .to_string()
        };
        for (peer, lists, origin) in [
            ("10.0.0.9", &["10.1.1.1"][..], "10.0.0.9"),
            ("10.0.0.5", &[], "10.0.0.5"),
            ("10.0.0.5", &["10.1.1.1"], "10.1.1.1"),
            ("::ffff:10.0.0.5", &["::ffff:10.1.1.1"], "10.1.1.1"),
            // The client claims another address; the proxy appends the one it sees.
            ("10.0.0.5", &["127.0.0.1, 10.1.1.1"], "10.1.1.1"),
            ("10.0.0.5", &["127.0.0.1", "10.1.1.1"], "10.1.1.1"),
            // Two proxies of the site in a chain.
            ("10.0.0.5", &["127.0.0.1, 10.1.1.1, 10.0.0.6"], "10.1.1.1"),
            ("10.0.0.5", &["10.1.1.1, unknown"], "10.0.0.5"),
            ("10.0.0.5", &["10.0.0.6"], "10.0.0.5"),
        ] {
            assert_eq!(from(peer, lists), origin, "{peer} {lists:?}");
        }
    }
}
