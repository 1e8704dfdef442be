//! `pipebench serve`, `cgi` and `keep`: runs from a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::plan::RunPlan;
use crate::web::{self, CgiError, FolderError, ServeError, Site, Tools};
use crate::{controller, exit, sys};

use super::args::{self, CgiArguments, KeepArguments, ServeArguments};
use super::process;
use super::resolve;
use super::terminal::{complain, first_sentence, refuse, tell};

/// Serves until it is asked to end; returns the exit code.
pub(super) fn serve(words: &ServeArguments) -> u8 {
    if words.example {
        return tell(web::EXAMPLE);
    }
    let Some(site) = words.site.as_deref().and_then(site_of) else {
        return exit::USAGE;
    };
    let (Some(tools), Some(stop)) = (tools(), stop_flag()) else {
        return exit::BUG;
    };
    if words.check {
        return tell(&(site.lines().join("\n") + "\n"));
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
                ServeError::Folder(error) => code_of(&error),
                ServeError::Listen(..) | ServeError::System(_) => exit::RESOURCE,
            }
        }
    }
}

/// Answers a CGI request; returns the exit code.
pub(super) fn cgi(words: &CgiArguments) -> u8 {
    let named = std::env::var_os("PIPEBENCH_SITE").map(PathBuf::from);
    let Some(path) = words.site.clone().or(named) else {
        return refuse(&"which site? (--site FILE, or the variable PIPEBENCH_SITE)");
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
                CgiError::Folder(error) => code_of(&error),
                CgiError::Stream(_) => exit::NOT_WRITTEN,
                CgiError::NoRequest(_) | CgiError::Token(_) | CgiError::Garbage => exit::USAGE,
            }
        }
    }
}

/// Supervises a run until it has ended; returns the exit code.
pub(super) fn keep(words: &KeepArguments) -> u8 {
    if !words.parent.is_none_or(process::end_with) {
        return exit::USAGE;
    }
    let (Some(tools), Some(stop)) = (tools(), stop_flag()) else {
        return exit::BUG;
    };
    match web::keep(&words.folder, std::io::stdin().lock(), &tools, &stop) {
        Ok(()) => exit::OK,
        Err(error) => {
            complain(&error.to_string());
            exit::NOT_WRITTEN
        }
    }
}

fn code_of(error: &FolderError) -> u8 {
    match error {
        FolderError::Store(_) => exit::NOT_WRITTEN,
        FolderError::Foreign(_) | FolderError::Open(_) => exit::USAGE,
    }
}

/// Reads the site's file. From here on no other user can change a file that this process or one of its runs makes.
fn site_of(path: &Path) -> Option<Site> {
    process::keep_files_own();
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
    // Names, sessions and tokens consist of random digits.
    process::random_digits().ok()?;
    Some(Tools {
        understand,
        now_ms: process::now_ms,
        random: || controller::random_digits().expect("the kernel had random numbers at the start"),
        program,
    })
}

/// Flag that SIGINT and SIGTERM set. `None` if a handler cannot be installed.
fn stop_flag() -> Option<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| complain(&format!("cannot handle signal {signal}: {error}")))
            .ok()?;
    }
    Some(stop)
}

/// Turns arguments of the plain command into a plan.
fn understand(words: &[String]) -> Result<RunPlan, String> {
    let arguments = args::parsed(words).map_err(|error| first_sentence(&error))?;
    let spec = resolve::parse(&arguments, process::seed(), &process::here())
        .map_err(|error| error.to_string())?;
    Ok(spec.plan)
}
