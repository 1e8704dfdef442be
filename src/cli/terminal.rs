//! Output for the user during a run: one live line on a terminal, plain lines elsewhere, all on standard error.
//! Results go to standard output.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use crate::conduct::{Hold, Observer};
use crate::exit;
use crate::outside;
use crate::plan::{RunPlan, Test};
use crate::record::{HostRecord, Second};
use crate::report::header;
use crate::units::gbit_per_s;

/// Prints an error or warning of the program as one line on standard error.
pub fn complain(text: &str) {
    write_all(&mut io::stderr().lock(), &complaint(text));
}

/// Makes a complaint one line: a file name can contain a line end and a fake complaint after it.
fn complaint(text: &str) -> String {
    format!("pipebench: {}\n", outside::clean(text))
}

/// Writes lines to a stream, without characters that control a terminal: file names, host files and system messages can contain them.
/// Returns false on a failure. A reader that has gone away is no failure.
pub fn write_all(stream: &mut impl Write, text: &str) -> bool {
    let steers = |letter: char| outside::steers(letter) && !matches!(letter, '\n' | '\t');
    let plain = match text.contains(steers) {
        true => Cow::Owned(text.replace(steers, " ")),
        false => Cow::Borrowed(text),
    };
    match stream
        .write_all(plain.as_bytes())
        .and_then(|()| stream.flush())
    {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::BrokenPipe,
    }
}

/// Prints the whole output of a command; returns the exit code.
pub fn tell(text: &str) -> u8 {
    if write_all(&mut std::io::stdout().lock(), text) {
        return exit::OK;
    }
    complain("cannot write to standard output");
    exit::NOT_WRITTEN
}

/// Prints one line for bad usage, or the help as clap prints it; returns the exit code.
pub fn explain(error: &clap::Error) -> u8 {
    use clap::error::ErrorKind;
    if error.kind() == ErrorKind::DisplayHelp {
        // A reader that has gone away is no failure.
        return match error.print() {
            Ok(()) | Err(_) => exit::OK,
        };
    }
    complain(&format!(
        "{} (see 'pipebench --help')",
        first_sentence(error)
    ));
    exit::USAGE
}

/// First paragraph of clap's error, as one line.
pub fn first_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first: Vec<&str> = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .map(str::trim)
        .collect();
    let first = first.join(" ");
    first.strip_prefix("error: ").unwrap_or(&first).to_owned()
}

/// Moves to the start of the terminal's line and erases it.
fn clear_line() {
    match io::stderr().lock().write_all(b"\r\x1b[K") {
        Ok(()) | Err(_) => {} // A failure would be reported on standard error, too.
    }
}

/// Shows a run to the user.
pub struct Terminal {
    quiet: bool,
    /// Standard output carries a table or record, so that all other output goes to standard error.
    taken: bool,
    live: bool,
    labels: Vec<String>,
    /// Names of the ports, node by node and rail by rail.
    ports: Vec<String>,
    host_indices: Vec<usize>,
    line_open: bool,
    lost: bool,
}

impl Terminal {
    /// Makes a terminal. `quiet` suppresses everything but results; `taken` is true if standard output carries a result file.
    pub fn new(quiet: bool, taken: bool) -> Self {
        let live = io::stderr().is_terminal();
        Self {
            quiet,
            taken,
            live,
            labels: Vec::new(),
            ports: Vec::new(),
            host_indices: Vec::new(),
            line_open: false,
            lost: false,
        }
    }

    /// Prints a result.
    pub fn result(&mut self, text: &str) {
        self.close_line();
        let written = if self.taken {
            write_all(&mut io::stderr().lock(), text)
        } else {
            write_all(&mut io::stdout().lock(), text)
        };
        self.lost |= !written;
    }

    /// True if only results are wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// True if a result could not be printed.
    pub fn has_lost(&self) -> bool {
        self.lost
    }

    fn aside(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        self.close_line();
        write_all(&mut io::stderr().lock(), &format!("{text}\n"));
    }

    /// Ends the live line, if one is open.
    pub fn close_line(&mut self) {
        if self.line_open {
            self.line_open = false;
            clear_line();
        }
    }

    fn live_line(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        if self.live {
            self.line_open = true;
            clear_line();
            write_all(&mut io::stderr().lock(), text);
        } else {
            write_all(&mut io::stderr().lock(), &format!("{text}\n"));
        }
    }
}

impl Observer for Terminal {
    fn notice(&mut self, text: &str) {
        self.aside(text);
    }

    fn stage(&mut self, text: &str) {
        if self.live {
            self.live_line(&format!("... {text}"));
        }
    }

    fn test(&mut self, number: usize, of: usize, test: &Test) {
        if !self.live {
            self.aside(&format!("test {number} of {of}, {}", test.pattern));
        }
    }

    fn hosts(&mut self, plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]) {
        let rails = plan.tests().first().map_or(1, |test| test.rails);
        let ports = plan.nodes.iter().zip(hosts).flat_map(|(node, host)| {
            (0..rails).map(move |rail| {
                let interface = host.rails.get(rail).and_then(|one| one.interface.as_ref());
                match interface.filter(|_| rails > 1) {
                    Some(interface) => format!("{} {interface}", node.label),
                    None => node.label.clone(),
                }
            })
        });
        self.ports = ports.collect();
        self.labels = plan.nodes.iter().map(|node| node.label.clone()).collect();
        self.host_indices = hosts.iter().map(|host| host.host_index).collect();
        if !self.quiet {
            let text = header::options(options) + &header::hosts(hosts) + "\n";
            self.result(&text);
        }
    }

    fn second(&mut self, _test: &Test, second: &Second) {
        const SECOND_NS: u64 = 1_000_000_000;
        let sum = |bytes: &[u64]| gbit_per_s(bytes.iter().sum(), SECOND_NS);
        let several = self.host_indices.iter().any(|host| *host != 0);
        let (name, ports, labels) = if several {
            ("switch", &second.received_bytes, &self.ports)
        } else {
            ("between nodes", &second.same_host_bytes, &self.labels)
        };
        let slowest = ports.iter().enumerate().min_by_key(|(_, bytes)| **bytes);
        let slowest = slowest.map_or_else(String::new, |(node, bytes)| {
            let label = labels.get(node).map_or("", String::as_str);
            format!("  slowest {label} {:.2}", gbit_per_s(*bytes, SECOND_NS))
        });
        let near = if several {
            let bytes = second.same_host_bytes.iter().chain(&second.own_bytes);
            gbit_per_s(bytes.sum(), SECOND_NS)
        } else {
            sum(&second.own_bytes)
        };
        let apart = if several { "same-host" } else { "within nodes" };
        let at = second.at_ns / SECOND_NS;
        let total = sum(ports);
        self.live_line(&format!(
            "{at:4} s  {name} {total:8.2} Gbit/s{slowest}  {apart} {near:.2}"
        ));
    }

    fn held(&mut self, at: Hold) {
        self.close_line();
        write_all(
            &mut io::stderr().lock(),
            &format!("held at {}; press Enter to go on\n", at.name()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_one_line_whatever_a_file_is_called() {
        let line = complaint("cannot read a\r\npipebench: n1 is at fault: no such file");
        assert_eq!(
            line,
            "pipebench: cannot read a  pipebench: n1 is at fault: no such file\n"
        );
    }
}
