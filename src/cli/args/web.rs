//! The words of `pipebench serve`, `cgi` and `keep`.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What the long help of `serve` says.
pub(super) const SERVE_LONG: &str = "Serves a page from which runs are started, watched and read, and an API for programs. What may be started is what the site's \
    file allows (web.toml: groups of hosts, patterns, greatest time and rate); each run is a child process of the own executable.\n\n\
    Listens on this machine only, if nothing else is said; TLS is a proxy's. Starting and cancelling needs the site's token, which stands in a file; \
    on an address that others can reach reading does, too. See docs/web.md.\n\n\
    Exit codes: 0 when it was asked to end; 2 bad usage or site; 12 the address could not be had; 30 a folder could not be written.";

/// What the long help of `cgi` says.
pub(super) const CGI_LONG: &str = "Answers one request of a web server (CGI/1.1) with the pages and the API of `pipebench serve`. A run that is started is detached \
    from the request: it goes on by itself, and its state stands in its folder.\n\n\
    The site's file is named by --site, or by the variable PIPEBENCH_SITE. See docs/web.md for the service account, and examples/ for configurations \
    of two web servers.";

/// Words of `serve`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServeArguments {
    /// The site's file: what may be started
    ///
    /// `pipebench serve --example` prints one with comments. Example: --site /etc/pipebench/web.toml
    #[arg(long, value_name = "FILE", required_unless_present = "example")]
    pub site: Option<PathBuf>,

    /// Address and port to listen on
    ///
    /// Others than this machine need the token for reading, too. Port 0 is any that is free; the address is printed. Default 127.0.0.1:8080.
    /// Example: --listen 127.0.0.1:9000
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// Read the site's file, say what it allows, and end
    ///
    /// Example: --site web.toml --check
    #[arg(long, requires = "site")]
    pub check: bool,

    /// Print an example of a site's file, with comments
    ///
    /// Example: --example
    #[arg(long)]
    pub example: bool,
}

/// Words of `cgi`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CgiArguments {
    /// The site's file: what may be started
    ///
    /// Default: what the variable PIPEBENCH_SITE says. Example: --site /etc/pipebench/web.toml
    #[arg(long, value_name = "FILE")]
    pub site: Option<PathBuf>,
}

/// Words of `keep`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct KeepArguments {
    /// Folder of the run.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// End when the process of this number does, which is the parent.
    #[arg(long, value_name = "PID")]
    pub parent: Option<i32>,
}
