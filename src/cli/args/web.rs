//! The words of `pipebench serve`, `cgi` and `keep`.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What the long help of `serve` says.
pub(super) const SERVE_LONG: &str = "Serves a web page that starts, watches and reads runs, and an API for programs. The site file (web.toml) says what users may start: \
    groups of hosts, patterns, longest time and highest rate. Each run is a child process of this executable.\n\n\
    By default it listens on this machine only; use a proxy for TLS. Starting and cancelling a run needs the site's token, which is in a file; \
    on an address that others can reach, reading needs it, too. See docs/web.md.\n\n\
    Exit codes: 0 ended on request; 2 bad usage or site file; 12 cannot listen on the address; 30 a folder could not be written.";

/// What the long help of `cgi` says.
pub(super) const CGI_LONG: &str = "Answers one request of a web server (CGI/1.1) with the pages and the API of `pipebench serve`. A run is detached \
    from the request that starts it: it continues after the answer, and its folder holds its state.\n\n\
    Name the site file with --site, or with the variable PIPEBENCH_SITE. See docs/web.md for the service account, and examples/ for configurations \
    of two web servers.";

/// Words of `serve`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServeArguments {
    /// Site file: what users may start
    ///
    /// `pipebench serve --example` prints one with comments. Example: --site /etc/pipebench/web.toml
    #[arg(long, value_name = "FILE", required_unless_present = "example")]
    pub site: Option<PathBuf>,

    /// Address and port to listen on
    ///
    /// Any address other than this machine requires the token for reading, too. Port 0 selects a free port; pipebench
    /// prints the address. Example: --listen 127.0.0.1:9000
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// Check the site file, print what it allows, and end
    ///
    /// Refuses what a start of the server or a run from the page would refuse, and changes no file. Example: --site web.toml --check
    #[arg(long, requires = "site")]
    pub check: bool,

    /// Print an example of a site file, with comments
    ///
    /// Example: --example
    #[arg(long)]
    pub example: bool,
}

/// Words of `cgi`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CgiArguments {
    /// Site file: what users may start
    ///
    /// Default: the value of the variable PIPEBENCH_SITE. Example: --site /etc/pipebench/web.toml
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
