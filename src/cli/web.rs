//! `pipebench serve`, `cgi` and `keep`: runs from a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::plan::RunPlan;
use crate::web::{self, CgiError, FolderError, ServeError, Site, Tools};
use crate::{controller, exit, sys};

use super::args::latency::LatencyCommand;
use super::args::{self, CgiArguments, KeepArguments, ServeArguments, Subcommand};
use super::mistakes::first_sentence;
use super::process;
use super::resolve;
use super::terminal::{complain, fail, refuse, tell};

/// Serves until it is asked to end; returns the exit code.
pub(super) fn serve(words: &ServeArguments) -> Result<u8, u8> {
    if words.example {
        return Ok(tell(web::EXAMPLE));
    }
    let path = words.site.as_deref().ok_or(exit::USAGE)?;
    let site = site_of(path)?;
    let (tools, stop) = (tools()?, stop_flag()?);
    if words.check {
        web::check(&site, path, &tools).map_err(|error| refuse(&error))?;
        return Ok(tell(&(site.lines(words.listen).join("\n") + "\n")));
    }
    let (token, base) = (site.token_file.clone(), site.base.clone());
    let full = std::path::absolute(&token).unwrap_or(token);
    let told = |address: SocketAddr, link: Option<&str>| {
        complain(&format!(
            "http://{address}{base}/ (token file: {})",
            full.display()
        ));
        if let Some(link) = link {
            complain(&format!(
                "log in once, within ten minutes: http://{address}{link}"
            ));
        }
    };
    let served = web::serve(site, words.listen, &tools, &stop, &told);
    served.map(|()| exit::OK).map_err(|error| {
        let code = match &error {
            ServeError::Token(_) => exit::USAGE,
            ServeError::Folder(error) => code_of(error),
            ServeError::Listen(..) | ServeError::System(_) => exit::RESOURCE,
        };
        fail(&error, code)
    })
}

/// Answers a CGI request; returns the exit code.
pub(super) fn cgi(words: &CgiArguments) -> Result<u8, u8> {
    let named = std::env::var_os("PIPEBENCH_SITE").map(PathBuf::from);
    let Some(path) = words.site.clone().or(named) else {
        return Err(refuse(
            &"no site file (give --site FILE, or set PIPEBENCH_SITE)",
        ));
    };
    let (site, tools) = (site_of(&path)?, tools()?);
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let answered = web::answer(site, &tools, &process::variable, input, output);
    answered.map(|()| exit::OK).map_err(|error| {
        let code = match &error {
            CgiError::Folder(error) => code_of(error),
            CgiError::Stream(_) => exit::NOT_WRITTEN,
            CgiError::NoRequest(_) | CgiError::Token(_) | CgiError::Garbage => exit::USAGE,
        };
        fail(&error, code)
    })
}

/// Supervises a run until it has ended; returns the exit code.
pub(super) fn keep(words: &KeepArguments) -> Result<u8, u8> {
    if !words.parent.is_none_or(process::end_with) {
        return Err(exit::USAGE);
    }
    let (tools, stop) = (tools()?, stop_flag()?);
    let kept = web::keep(&words.folder, std::io::stdin().lock(), &tools, &stop);
    kept.map(|()| exit::OK)
        .map_err(|error| fail(&error, exit::NOT_WRITTEN))
}

fn code_of(error: &FolderError) -> u8 {
    match error {
        FolderError::Store(_) => exit::NOT_WRITTEN,
        FolderError::Foreign(_) | FolderError::Open(_) => exit::USAGE,
    }
}

/// Reads the site's file. From here on no other user can change a file that this process or one of its runs makes.
fn site_of(path: &Path) -> Result<Site, u8> {
    process::keep_files_own();
    web::read_site(path).map_err(|error| refuse(&error))
}

fn tools() -> Result<Tools, u8> {
    let program = std::env::current_exe().map_err(|error| {
        let why = sys::why(&error);
        fail(&format!("cannot find this executable: {why}"), exit::BUG)
    })?;
    // Names, sessions and tokens consist of random digits.
    process::random_digits().map_err(|_| exit::BUG)?;
    Ok(Tools {
        understand,
        now_ms: process::now_ms,
        random: || controller::random_digits().expect("the kernel had random numbers at the start"),
        program,
    })
}

/// Flag that SIGINT and SIGTERM set. The error is the exit code.
fn stop_flag() -> Result<Arc<AtomicBool>, u8> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| process::no_handler(signal, &error))?;
    }
    Ok(stop)
}

/// Turns the words of a command that measures into a plan.
fn understand(words: &[String]) -> Result<RunPlan, String> {
    let arguments = args::commanded(words).map_err(|error| first_sentence(&error))?;
    let spec = match &arguments.subcommand {
        Some(Subcommand::Linktest(words)) => resolve::linktest::parse(words),
        Some(Subcommand::Imb(words)) => resolve::imb::parse(words),
        Some(Subcommand::Latency(words)) => match &words.command {
            LatencyCommand::Run(words) => resolve::latency::parse(words, None, false),
            _ => return Err("latency run alone measures".to_owned()),
        },
        _ => resolve::parse(&arguments.plain, process::seed(), &process::here()),
    };
    Ok(spec.map_err(|error| error.to_string())?.plan)
}
