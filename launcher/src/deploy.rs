//! Deployment: the script that looks for the executable on the other side, and its answers.
//!
//! The remote command is only `/bin/sh -s`, so no quoting has to survive csh, srun or a second SSH. The script comes
//! over standard input, in braces so that the shell has read all of it before the first command runs: some shells
//! read ahead in blocks, which is also why nothing more is sent before an answer has come.
//!
//! ```text
//!   launcher                                  /bin/sh -s
//!      | ---------------- script ---------------> |  tries the folders in turn
//!      | <--- NONCE note FOLDER: reason --------- |  for each that was passed over
//!      | <--- NONCE have FILE ------------------- |  exec            (or)
//!      | <--- NONCE need INDEX FOLDER ----------- |  the file is not there
//!      | ------------- SIZE bytes --------------> |  head -c SIZE > temporary; sync; mv
//!      | <--- NONCE stored ---------------------- |  exec            (or)
//!      | <--- NONCE short reason ---------------- |  quota, disk full: the end; the launcher comes again
//!      | <--- NONCE none ------------------------ |  no folder is usable: the end
//!      | <--- NONCE arch MACHINE ---------------- |  another machine: the end
//! ```
//!
//! Pure: text in, text out. Read next: `session/dialogue.rs`, which carries this on.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::program::Program;

/// The name of the cache folder and the beginning of each file's name in it.
pub(crate) const FOLDER: &str = "pipebench";

/// How many folders are tried where none is named.
const CANDIDATES: usize = 3;

/// What is to be deployed and started.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// A word that no login shell prints; every answer begins with it.
    pub(crate) nonce: String,
    digest: String,
    size: usize,
    arch: String,
    arguments: Vec<String>,
    remote_dir: Option<String>,
    excluded: BTreeSet<usize>,
}

/// A line of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A folder was passed over, and why.
    Note(String),
    /// The executable is there and is being started.
    Have,
    /// The executable is wanted in this folder.
    Need { index: usize, folder: String },
    /// The executable arrived whole and is being started.
    Stored,
    /// The executable could not be written.
    Short(String),
    /// No folder is left.
    None,
    /// The host is another machine.
    Arch(String),
}

impl Order {
    pub(crate) fn new(program: &Program, arguments: &[String], remote_dir: Option<&str>) -> Order {
        Order {
            nonce: nonce(),
            digest: program.digest.clone(),
            size: program.bytes.len(),
            arch: program.arch.clone(),
            arguments: arguments.to_vec(),
            remote_dir: remote_dir.map(str::to_owned),
            excluded: BTreeSet::new(),
        }
    }

    /// The same order without these folders, under a new nonce.
    pub(crate) fn without(mut self, folders: &BTreeSet<usize>) -> Order {
        self.excluded = folders.clone();
        self.nonce = nonce();
        self
    }

    /// How many folders there are to try.
    pub(crate) fn folders(&self) -> usize {
        if self.remote_dir.is_some() {
            1
        } else {
            CANDIDATES
        }
    }

    /// What is written to `/bin/sh -s`.
    pub(crate) fn script(&self) -> String {
        // The nonce stands there in two halves: a shell that echoes its input must not answer itself.
        let (left, right) = self.nonce.split_at(self.nonce.len() / 2);
        let skip: String = self
            .excluded
            .iter()
            .map(|index| format!("{index} "))
            .collect();
        let arguments: String = self
            .arguments
            .iter()
            .map(|word| format!(" {}", quoted(word)))
            .collect();
        let short_digest = &self.digest[..self.digest.len().min(32)];
        SCRIPT
            .replace("@LEFT@", left)
            .replace("@RIGHT@", right)
            .replace("@FILE@", &quoted(&format!("{FOLDER}-{short_digest}")))
            .replace("@SIZE@", &self.size.to_string())
            .replace("@ARCH@", &quoted(&self.arch))
            .replace("@SKIP@", &skip)
            .replace("@FOLDERS@", &self.folder_cases())
            .replace("@PREFIX@", FOLDER)
            .replace("@ARGUMENTS@", &arguments)
    }

    /// The folders in their order: a number, the folder, and whether others may write beside it.
    fn folder_cases(&self) -> String {
        match self.remote_dir.as_deref() {
            Some(named) => format!("l_try 1 {} named", folder_word(named)),
            None => [
                "l_try 1 \"${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/@PREFIX@\" home",
                "l_try 2 \"/var/tmp/@PREFIX@-$l_id\" shared",
                "l_try 3 \"/tmp/@PREFIX@-$l_id\" shared",
            ]
            .join(" || "),
        }
    }
}

impl Answer {
    /// The answer behind the nonce; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Answer> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "note" => Answer::Note(crate::error::one_line(rest)),
            "have" => Answer::Have,
            "need" => {
                let (index, folder) = rest.split_once(' ')?;
                Answer::Need {
                    index: index.parse().ok()?,
                    folder: crate::error::one_line(folder),
                }
            }
            "stored" => Answer::Stored,
            "short" => Answer::Short(crate::error::one_line(rest)),
            "none" => Answer::None,
            "arch" => Answer::Arch(crate::error::one_line(rest)),
            _ => return None,
        })
    }
}

/// A word that a POSIX shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A named folder; `~/` is the home folder of the other side.
fn folder_word(named: &str) -> String {
    match named.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", quoted(rest)),
        None if named == "~" => "\"$HOME\"".to_owned(),
        None => quoted(named),
    }
}

/// Keys of a hash map are random enough: the nonce guards against accidents, not against the host itself.
fn nonce() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

/// Every variable begins with `l_`, so that an exported one of the user is not changed for the program.
/// The size is asked of `wc`, since `stat` has no portable options. The proof that files can be executed is made
/// with a script in that very folder: `test -x` does not see every kind of noexec.
const SCRIPT: &str = r#"{
l_n=@LEFT@; l_n="$l_n"@RIGHT@
l_say() { printf '%s %s\n' "$l_n" "$*"; }
l_mask=$(umask); umask 077
l_arch=$(uname -m </dev/null)
[ "$l_arch" = @ARCH@ ] || { l_say "arch $l_arch"; exit 1; }
l_id=$(id -u </dev/null); l_host=$(uname -n </dev/null)
l_size() { [ -f "$1" ] && [ "$(($(wc -c <"$1")))" -eq @SIZE@ ]; }
l_usable() {
  case "$2" in
  shared)
    mkdir -m 700 "$1" 2>/dev/null </dev/null
    [ ! -L "$1" ] || { l_why='it is a symbolic link'; return 1; }
    [ -d "$1" ] || { l_why='it cannot be made'; return 1; }
    [ -O "$1" ] || { l_why='it belongs to another user'; return 1; }
    chmod 700 "$1" </dev/null;;
  *)
    l_why=$(LC_ALL=C mkdir -p "$1" 2>&1 </dev/null) || return 1;;
  esac
  l_file=$1/@FILE@; l_tmp=$l_file.tmp.$l_host.$$.$l_n
  l_have=no; [ -x "$l_file" ] && l_size "$l_file" && l_have=yes
  if l_why=$( { printf '#!/bin/sh\nexit 0\n' | LC_ALL=C cat >"$l_tmp" && chmod 700 "$l_tmp"; } 2>&1 ) && [ -s "$l_tmp" ]; then
    "$l_tmp" </dev/null >/dev/null 2>&1; l_ran=$?
    rm -f "$l_tmp"
    [ "$l_ran" -eq 0 ] || { l_why='files in it cannot be executed (mounted noexec?)'; return 1; }
  else
    rm -f "$l_tmp"
    [ "$l_have" = yes ] || { l_why="it cannot be written to: $l_why"; return 1; }
  fi
}
l_try() {
  case " @SKIP@" in *" $1 "*) return 1;; esac
  l_index=$1; l_dir=$2
  l_usable "$2" "$3" && return 0
  l_say "note $2: $(printf %s "$l_why" | tr '\n' ' ')"
  return 1
}
@FOLDERS@ || { l_say none; exit 1; }
if [ "$l_have" = yes ]; then
  touch -c "$l_file" 2>/dev/null </dev/null
  l_say "have $l_file"
else
  trap 'rm -f "$l_tmp"; exit 1' HUP INT TERM
  l_say "need $l_index $l_dir"
  l_why=$( { LC_ALL=C head -c @SIZE@ >"$l_tmp"; } 2>&1 )
  if l_size "$l_tmp" && chmod 700 "$l_tmp" && { sync "$l_tmp" || sync; } 2>/dev/null </dev/null && mv -f "$l_tmp" "$l_file" </dev/null; then
    trap - HUP INT TERM
    l_say stored
  else
    rm -f "$l_tmp"
    l_say "short $(printf %s "${l_why:-only a part of it arrived}" | tr '\n' ' ')"
    exit 1
  fi
  find "$l_dir" -maxdepth 1 -type f -name '@PREFIX@-*' ! -name @FILE@ \( -mtime +30 -o -name '*.tmp.*' -mtime +1 \) -exec rm -f {} + </dev/null >/dev/null 2>&1
fi
umask "$l_mask"
exec "$l_file"@ARGUMENTS@
}
"#;
