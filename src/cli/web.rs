//! `pipebench serve`, `cgi` and `keep`: runs from a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::plan::RunPlan;
use crate::web::{self, CgiError, ServeError, Site, Tools};
use crate::{conduct, exit, sys};

use super::arguments::Arguments;
use super::intent;
use super::run;
use super::terminal::complain;

/// What the long help of `serve` says.
pub const SERVE_LONG: &str = "Serves a page from which runs are started, watched and read, and an API for programs. What may be started is what the site's \
    file allows (web.toml: groups of hosts, patterns, greatest time and rate); each run is a child process of the own executable.\n\n\
    Listens on this machine only, if nothing else is said; TLS is a proxy's. Starting and cancelling needs the site's token, which stands in a file; \
    on an address that others can reach reading does, too. See docs/web.md.\n\n\
    Exit codes: 0 when it was asked to end; 2 bad usage or site; 12 the address could not be had; 30 a folder could not be written.";

/// What the long help of `cgi` says.
pub const CGI_LONG: &str = "Answers one request of a web server (CGI/1.1) with the pages and the API of `pipebench serve`. A run that is started is detached \
    from the request: it goes on by itself, and its state stands in its folder.\n\n\
    The site's file is named by --site, or by the variable PIPEBENCH_SITE. See docs/web.md for the service account, and examples/ for configurations \
    of two web servers.";

/// Words of `serve`.
#[derive(Debug, Clone, clap::Args)]
pub struct ServeArguments {
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
pub struct CgiArguments {
    /// The site's file: what may be started
    ///
    /// Default: what the variable PIPEBENCH_SITE says. Example: --site /etc/pipebench/web.toml
    #[arg(long, value_name = "FILE")]
    pub site: Option<PathBuf>,
}

/// Words of `keep`.
#[derive(Debug, Clone, clap::Args)]
pub struct KeepArguments {
    /// Folder of the run.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// End when the process of this number does, which is the parent.
    #[arg(long, value_name = "PID")]
    pub parent: Option<i32>,
}

/// Serves until it is asked to end; returns the exit code.
pub fn serve(words: &ServeArguments) -> u8 {
    if words.example {
        return super::tell(web::EXAMPLE);
    }
    let Some(site) = words.site.as_deref().and_then(site_of) else {
        return exit::USAGE;
    };
    let (Some(tools), Some(stop)) = (tools(), stop_flag()) else {
        return exit::BUG;
    };
    if words.check {
        return super::tell(&(site.lines().join("\n") + "\n"));
    }
    let (token, base) = (site.token_file.clone(), site.base.clone());
    let told = |address: SocketAddr| {
        complain(&format!(
            "http://{address}{base}/ (token in {})",
            token.display()
        ));
    };
    match web::serve(site, words.listen, &tools, &stop, &told) {
        Ok(()) => exit::OK,
        Err(error) => {
            complain(&error.to_string());
            match error {
                ServeError::Token(_) => exit::USAGE,
                ServeError::Store(_) => exit::NOT_WRITTEN,
                ServeError::Listen(..) | ServeError::System(_) => exit::RESOURCE,
            }
        }
    }
}

/// Answers a request; returns the exit code.
pub fn cgi(words: &CgiArguments) -> u8 {
    let named = std::env::var_os("PIPEBENCH_SITE").map(PathBuf::from);
    let Some(path) = words.site.clone().or(named) else {
        complain("which site? (--site FILE, or the variable PIPEBENCH_SITE)");
        return exit::USAGE;
    };
    let Some(site) = site_of(&path) else {
        return exit::USAGE;
    };
    let Some(tools) = tools() else {
        return exit::BUG;
    };
    let variable = |name: &str| std::env::var(name).ok();
    match web::answer(
        site,
        &tools,
        &variable,
        std::io::stdin().lock(),
        std::io::stdout().lock(),
    ) {
        Ok(()) => exit::OK,
        Err(error) => {
            complain(&error.to_string());
            match error {
                CgiError::Store(_) | CgiError::Stream(_) => exit::NOT_WRITTEN,
                CgiError::NoRequest(_) | CgiError::Token(_) | CgiError::Garbage => exit::USAGE,
            }
        }
    }
}

/// Sees to a run until it has ended; returns the exit code.
pub fn keep(words: &KeepArguments) -> u8 {
    if !words.parent.is_none_or(run::end_with) {
        return exit::USAGE;
    }
    let (Some(tools), Some(stop)) = (tools(), stop_flag()) else {
        return exit::BUG;
    };
    match web::keep(&words.folder, &tools, &stop) {
        Ok(()) => exit::OK,
        Err(error) => {
            complain(&error.to_string());
            exit::NOT_WRITTEN
        }
    }
}

fn site_of(path: &Path) -> Option<Site> {
    web::read_site(path)
        .map_err(|error| complain(&error.to_string()))
        .ok()
}

fn tools() -> Option<Tools> {
    let program = std::env::current_exe()
        .map_err(|error| {
            complain(&format!(
                "cannot find the own executable: {}",
                sys::why(&error)
            ))
        })
        .ok()?;
    // Names, sessions and tokens are made of them.
    run::random_digits().ok()?;
    Some(Tools {
        understand,
        now_ms: run::now_ms,
        random: || conduct::random_digits().expect("the kernel had random numbers at the start"),
        program,
    })
}

/// Set when this process is asked to end.
fn stop_flag() -> Option<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| complain(&format!("cannot handle signal {signal}: {error}")))
            .ok()?;
    }
    Some(stop)
}

/// Words of the plain command as a plan.
fn understand(words: &[String]) -> Result<RunPlan, String> {
    let own = std::iter::once("pipebench").chain(words.iter().map(String::as_str));
    let arguments =
        Arguments::try_parse_from(own).map_err(|error| super::first_sentence(&error))?;
    let intent =
        intent::parse(&arguments, run::seed(), &run::here()).map_err(|error| error.to_string())?;
    Ok(intent.plan)
}
