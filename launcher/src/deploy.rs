//! Deployment: the script that looks for the executable on the host, and its answers.
//!
//! The remote command is only `/bin/sh -s`, so no quoting has to survive csh, srun or a second SSH.
//! The script arrives over standard input. Its braces make the shell read all of it before the first
//! command runs, because some shells read ahead in blocks. For the same reason the launcher sends
//! nothing more before an answer has arrived.
//!
//! ```text
//!   launcher                                  /bin/sh -s
//!      | ---------------- script ---------------> |  tries the folders in turn
//!      | <--- NONCE note FOLDER: reason --------- |  for each folder that was passed over
//!      | <--- NONCE have FILE ------------------- |  exec            (or)
//!      | <--- NONCE need INDEX FORM ARCH FOLDER - |  the file is missing; FORM is gzip or plain
//!      | -------- COUNT, then COUNT bytes ------> |  head -c COUNT | gzip -dc > temporary; sync; mv
//!      | <--- NONCE stored ---------------------- |  exec            (or)
//!      | <--- NONCE short reason ---------------- |  quota, disk full: the end; the launcher retries
//!      | <--- NONCE none ------------------------ |  no folder is usable: the end
//!      | <--- NONCE arch MACHINE ---------------- |  no executable for it: the end
//! ```
//!
//! Pure: text in, text out. Read next: `session/dialogue.rs`, which runs this exchange.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use crate::program::Program;

/// The name of the cache folder, and the prefix of each file's name in it.
pub(crate) const FOLDER: &str = "pipebench";

/// How much longer than the launching side a host waits for the executable, so that the launching side says it first.
const MARGIN: Duration = Duration::from_secs(5);

/// Number of folders to try if the user names none.
const CANDIDATES: usize = 3;

/// The executable to deploy and start on one host, and where.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// A word that no login shell prints. Every answer begins with it.
    pub(crate) nonce: String,
    pub(crate) program: Program,
    arguments: Vec<String>,
    remote_dir: Option<String>,
    excluded: BTreeSet<usize>,
}

/// A line that the script prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A folder was passed over: the folder and the reason.
    Note(String),
    /// The executable exists and is being started.
    Have,
    /// The script waits for the executable of its architecture and stores it in this folder.
    Need {
        index: usize,
        form: Form,
        arch: String,
        folder: String,
    },
    /// The executable arrived whole and is being started.
    Stored,
    /// The executable could not be written, for this reason.
    Short(String),
    /// No folder is usable.
    None,
    /// No executable is for the host's architecture, the output of its `uname -m`.
    Arch(String),
}

/// The form in which the executable travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it is: the host has no working gzip.
    Plain,
    /// Compressed to a third or less.
    Gzip,
}

impl Order {
    pub(crate) fn new(program: &Program, arguments: &[String], remote_dir: Option<&str>) -> Order {
        Order {
            nonce: nonce(),
            program: program.clone(),
            arguments: arguments.to_vec(),
            remote_dir: remote_dir.map(str::to_owned),
            excluded: BTreeSet::new(),
        }
    }

    /// Returns the order without these folders and with a new nonce.
    pub(crate) fn without(mut self, folders: &BTreeSet<usize>) -> Order {
        self.excluded = folders.clone();
        self.nonce = nonce();
        self
    }

    /// Number of folders to try, excluded ones included.
    pub(crate) fn folders(&self) -> usize {
        self.remote_dir.as_ref().map_or(CANDIDATES, |_| 1)
    }

    /// Builds the text to write to `/bin/sh -s`. The host waits for the executable a little longer than `limit`, the
    /// launching side's own limit.
    pub(crate) fn script(&self, limit: Duration) -> String {
        // The script holds the nonce in two halves, so that a shell that echoes its input does not fake an
        // answer.
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
        let cases: String = self.program.for_hosts().map(arch_case).collect();
        SCRIPT
            .replace("@LEFT@", left)
            .replace("@RIGHT@", right)
            .replace("@ARCHES@", &cases)
            .replace("@SKIP@", &skip)
            .replace("@FOLDERS@", &self.folder_cases())
            .replace("@PREFIX@", FOLDER)
            .replace("@SECONDS@", &(limit + MARGIN).as_secs().to_string())
            .replace("@FROM@", FROM)
            .replace("@ARGUMENTS@", &arguments)
    }

    /// Lists the folders in the order of trial: a number, the folder, and this user's own sub-folder.
    fn folder_cases(&self) -> String {
        match self.remote_dir.as_deref() {
            Some(named) => format!("l_try 1 {} \"@PREFIX@-$l_id\"", folder_word(named)),
            None => [
                "l_try 1 \"${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}\" @PREFIX@",
                "l_try 2 /var/tmp \"@PREFIX@-$l_id\"",
                "l_try 3 /tmp \"@PREFIX@-$l_id\"",
            ]
            .join(" || "),
        }
    }
}

/// The name, size and digest of an executable, for hosts of its architecture.
fn arch_case(program: &Program) -> String {
    let Program { arch, digest, .. } = program;
    let (arch, size) = (quoted(arch), program.bytes.len());
    let short_digest = &digest[..digest.len().min(32)];
    format!("{arch}) l_name={FOLDER}-{short_digest}; l_bytes={size}; l_digest={digest};;\n")
}

impl Answer {
    /// Parses the text after the nonce. Returns `None` if it is not an answer.
    pub(crate) fn parse(text: &str) -> Option<Answer> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "note" => Answer::Note(crate::error::one_line(rest)),
            "have" => Answer::Have,
            "need" => {
                let mut words = rest.splitn(4, ' ');
                Answer::Need {
                    index: words.next()?.parse().ok()?,
                    form: match words.next()? {
                        "plain" => Form::Plain,
                        "gzip" => Form::Gzip,
                        _ => return None,
                    },
                    arch: words.next()?.to_owned(),
                    folder: crate::error::one_line(words.next()?),
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

/// Quotes a word, so that a POSIX shell takes it unchanged.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Quotes a named folder for the shell. `~/` is the home folder on the host.
fn folder_word(named: &str) -> String {
    match named.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", quoted(rest)),
        None if named == "~" => "\"$HOME\"".to_owned(),
        None => quoted(named),
    }
}

/// Makes a nonce from the random keys of a hash map. They are random enough: the nonce guards
/// against accidents, not against the host itself.
fn nonce() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

/// Environment variable that holds the folder in which the remote shell began. The program starts in
/// its own folder on the host and changes back to this one.
pub const FROM: &str = "PIPEBENCH_FROM";

/// Every variable begins with `l_`, so that the script does not change a variable that the user
/// exports to the program. `wc` gives the size, since `stat` has no portable options. A test script
/// in the folder itself proves that files there can be executed: `test -x` does not see every kind
/// of noexec.
///
/// A user who can write to a folder can exchange its files at any moment. So the program goes into
/// a sub-folder that belongs to this user and that no other user can write to. The script first
/// enters the sub-folder and then checks it by the name `.`, which cannot be exchanged. An existing
/// copy is started only if its digest is right.
///
/// A gzip that is there can still not work, so the script tries it; so it does with `timeout`. `read` takes no byte
/// after the line, and `head` none after the count. If the launching host fails or its last packet is lost, the
/// host's sshd waits for hours: `timeout` ends the copy.
const SCRIPT: &str = r#"{
l_n=@LEFT@; l_n="$l_n"@RIGHT@
l_say() { printf '%s %s\n' "$l_n" "$*"; }
l_mask=$(umask); umask 077
l_arch=$(uname -m </dev/null)
case $l_arch in
@ARCHES@*) l_say "arch $l_arch"; exit 1;;
esac
l_id=$(id -u </dev/null); l_host=$(uname -n </dev/null); l_from=$(pwd -P)
l_sum() { { sha256sum || openssl dgst -sha256 -r; } <"$1" 2>/dev/null; }
l_sums=no; case $(l_sum /dev/null) in e3b0c44298fc1c14*) l_sums=yes;; esac
l_same() { case $(l_sum "$1") in "$l_digest"*) ;; *) return 1;; esac; }
l_size() { [ -f "$1" ] && [ "$(($(wc -c <"$1")))" -eq $l_bytes ]; }
l_good() { [ $l_sums = yes ] && [ -x "$1" ] && [ -O "$1" ] && [ ! -L "$1" ] && l_size "$1" && l_same "$1"; }
l_whole() { l_size "$1" && { [ $l_sums = no ] || l_same "$1"; }; }
l_usable() {
  l_why=$(LC_ALL=C mkdir -p "$1" 2>&1 </dev/null) || return 1
  l_made=$(LC_ALL=C mkdir "$l_dir" 2>&1 </dev/null)
  [ ! -L "$l_dir" ] || { l_why="$2 in it is a symbolic link"; return 1; }
  CDPATH='' cd -P -- "$l_dir" 2>/dev/null || { l_why=${l_made:-"$2 in it cannot be entered"}; return 1; }
  case $(pwd -P) in */"$2") ;; *) l_why="$2 in it is a symbolic link"; return 1;; esac
  [ -O . ] || { l_why="$2 in it belongs to another user"; return 1; }
  chmod 700 . 2>/dev/null </dev/null
  case $(ls -ld . </dev/null) in drwx--[-S]---*) ;; *) l_why="others may write to $2 in it"; return 1;; esac
  l_file=./$l_name; l_tmp=$l_file.tmp.$l_host.$$.$l_n
  l_have=no; l_good "$l_file" && l_have=yes
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
  l_index=$1; l_dir=$2/$3
  l_usable "$2" "$3" && return 0
  l_say "note $2: $(printf %s "$l_why" | tr '\n' ' ')"
  return 1
}
@FOLDERS@ || { l_say none; exit 1; }
if [ "$l_have" = yes ]; then
  touch -c "$l_file" 2>/dev/null </dev/null
  l_say "have $l_dir/$l_name"
else
  trap 'rm -f "$l_tmp"; exit 1' HUP INT TERM
  l_form=plain; l_unpack=cat
  [ "$(printf x | gzip -c 2>/dev/null | gzip -dc 2>/dev/null)" = x ] && { l_form=gzip; l_unpack='gzip -dc'; }
  l_within=; timeout 9 true 2>/dev/null </dev/null && l_within='timeout @SECONDS@'
  l_say "need $l_index $l_form $l_arch $l_dir"
  l_count=$($l_within sh -c 'read -r l_count; echo "${l_count:-0}"' 2>/dev/null) || l_count=0
  if l_why=$( { LC_ALL=C $l_within head -c "$l_count" | LC_ALL=C $l_unpack >"$l_tmp"; } 2>&1 ) && l_whole "$l_tmp" && chmod 700 "$l_tmp" && { sync "$l_tmp" || sync; } 2>/dev/null </dev/null && { l_good "$l_file" || mv -f "$l_tmp" "$l_file"; } </dev/null; then
    rm -f "$l_tmp"
    trap - HUP INT TERM
    l_say stored
  else
    rm -f "$l_tmp"
    l_say "short $(printf %s "${l_why:-only a part of it arrived}" | tr '\n' ' ')"
    exit 1
  fi
  find . -maxdepth 1 -type f -name '@PREFIX@-*' ! -name "$l_name" \( -mtime +30 -o -name '*.tmp.*' -mtime +1 \) -exec rm -f {} + </dev/null >/dev/null 2>&1
fi
umask "$l_mask"
@FROM@=$l_from; export @FROM@
exec "$l_file"@ARGUMENTS@
}
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::path::{Path, PathBuf};
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

    const LIMIT: Duration = Duration::from_secs(60);
    const PROGRAM: &[u8] = b"#!/bin/sh\numask; echo \"$1\"; exec cat\n";

    fn program(bytes: &[u8]) -> Program {
        Program::new(PathBuf::new(), bytes.to_vec(), machine())
    }

    fn machine() -> String {
        let machine = nix::sys::utsname::uname().unwrap();
        machine.machine().to_string_lossy().into_owned()
    }

    /// The sub-folder of `folder` that belongs to this user.
    fn own(folder: &Path) -> PathBuf {
        folder.join(format!("{FOLDER}-{}", nix::unistd::geteuid()))
    }

    fn order(remote_dir: Option<&Path>) -> Order {
        let arguments = ["it's $HOME".to_owned()];
        Order::new(
            &program(PROGRAM),
            &arguments,
            remote_dir.map(|folder| folder.to_str().unwrap()),
        )
    }

    /// A shell that runs the script, in the role of the remote host.
    struct Shell {
        child: Child,
        input: ChildStdin,
        output: BufReader<ChildStdout>,
        nonce: String,
    }

    impl Shell {
        fn run(shell: &str, home: &Path, order: &Order) -> Shell {
            Shell::run_in(shell, home, order, &std::env::var("PATH").unwrap())
        }

        fn run_in(shell: &str, home: &Path, order: &Order, path: &str) -> Shell {
            let mut child = Command::new(shell)
                .arg("-s")
                .env("HOME", home)
                .env("PATH", path)
                .env_remove("XDG_CACHE_HOME")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = child.stdin.take().unwrap();
            let output = BufReader::new(child.stdout.take().unwrap());
            input.write_all(order.script(LIMIT).as_bytes()).unwrap();
            Shell {
                child,
                input,
                output,
                nonce: order.nonce.clone(),
            }
        }

        fn answer(&mut self) -> Option<Answer> {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            let rest = line.strip_prefix(&self.nonce)?;
            Answer::parse(rest.trim())
        }

        /// Writes the test's executable as a host with gzip gets it, and returns the answer.
        fn copy(&mut self) -> Option<Answer> {
            self.write(program(PROGRAM).packed());
            self.answer()
        }

        fn write(&mut self, bytes: &[u8]) {
            writeln!(self.input, "{}", bytes.len()).unwrap();
            self.input.write_all(bytes).unwrap();
        }

        /// Closes the input. Returns the rest of the output and the exit status.
        fn end(mut self) -> (String, Option<i32>) {
            drop(self.input);
            let mut rest = String::new();
            self.output.read_to_string(&mut rest).unwrap();
            (rest, self.child.wait().unwrap().code())
        }
    }

    fn shells() -> Vec<&'static str> {
        ["sh", "dash", "bash"]
            .into_iter()
            .filter(|shell| Command::new(shell).args(["-c", ":"]).status().is_ok())
            .collect()
    }

    fn names_in(folder: &Path) -> Vec<String> {
        std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn what_is_missing_is_copied_once_and_found_from_then_on() {
        for shell in shells() {
            let home = tempfile::tempdir().unwrap();
            let mut first = Shell::run(shell, home.path(), &order(None));
            let folder = home.path().join(".cache").join(FOLDER);
            let wanted = Answer::Need {
                index: 1,
                form: Form::Gzip,
                arch: machine(),
                folder: folder.to_str().unwrap().to_owned(),
            };
            assert_eq!(first.answer(), Some(wanted), "{shell}");
            assert_eq!(first.copy(), Some(Answer::Stored));
            first.input.write_all(b"to the program").unwrap();
            let (output, status) = first.end();
            assert!(
                output.ends_with("\nit's $HOME\nto the program"),
                "{shell}: {output}"
            );
            assert!(
                !output.starts_with("0077"),
                "the program has the user's own umask"
            );
            assert_eq!(status, Some(0));
            let mut second = Shell::run(shell, home.path(), &order(None));
            assert_eq!(second.answer(), Some(Answer::Have));
            assert!(second.end().0.contains("it's $HOME"));
            let names = names_in(&folder);
            assert_eq!(names.len(), 1, "no temporary file is left: {names:?}");
            let file = std::fs::metadata(folder.join(&names[0])).unwrap();
            assert_eq!(
                (file.permissions().mode() & 0o777, file.size()),
                (0o700, PROGRAM.len() as u64)
            );
        }
    }

    #[test]
    fn two_at_once_do_not_disturb_each_other() {
        let home = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (
            Shell::run("sh", home.path(), &order(None)),
            Shell::run("sh", home.path(), &order(None)),
        );
        assert!(matches!(one.answer(), Some(Answer::Need { .. })));
        assert!(matches!(two.answer(), Some(Answer::Need { .. })));
        let packed = program(PROGRAM).packed().clone();
        writeln!(one.input, "{}", packed.len()).unwrap();
        one.input.write_all(&packed[..5]).unwrap();
        assert_eq!(two.copy(), Some(Answer::Stored));
        one.input.write_all(&packed[5..]).unwrap();
        assert_eq!(one.answer(), Some(Answer::Stored));
        assert_eq!((one.end().1, two.end().1), (Some(0), Some(0)));
        assert_eq!(names_in(&home.path().join(".cache").join(FOLDER)).len(), 1);
    }

    #[test]
    fn a_copy_that_falls_short_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let mut shell = Shell::run("sh", home.path(), &order(None));
        assert!(matches!(shell.answer(), Some(Answer::Need { .. })));
        writeln!(shell.input, "{}", program(PROGRAM).packed().len()).unwrap();
        shell
            .input
            .write_all(&program(PROGRAM).packed()[..7])
            .unwrap();
        let nonce = shell.nonce.clone();
        let (output, status) = shell.end();
        assert!(output.starts_with(&format!("{nonce} short ")), "{output}");
        assert!(
            output.ends_with("gzip: stdin: unexpected end of file\n"),
            "{output}"
        );
        assert_eq!(status, Some(1));
        assert!(names_in(&home.path().join(".cache").join(FOLDER)).is_empty());
    }

    /// Symptom: 20 MB travelled to each host.
    #[test]
    fn a_compressed_copy_that_changed_on_the_way_is_refused_and_leaves_nothing() {
        let whole = program(PROGRAM).packed().to_vec();
        let changed_at = |place: usize| {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            changed
        };
        // The last eight bytes are gzip's own checksum and length.
        let (data, checksum) = (changed_at(whole.len() / 2), changed_at(whole.len() - 6));
        let other = program(b"#!/bin/sh\nexit 0\n").packed().to_vec();
        for bytes in [data, checksum, other, PROGRAM.to_vec()] {
            let home = tempfile::tempdir().unwrap();
            let mut shell = Shell::run("sh", home.path(), &order(None));
            assert!(matches!(shell.answer(), Some(Answer::Need { .. })));
            shell.write(&bytes);
            let answer = shell.answer();
            assert!(matches!(answer, Some(Answer::Short(_))), "{answer:?}");
            assert_eq!(shell.end().1, Some(1));
            assert!(names_in(&home.path().join(".cache").join(FOLDER)).is_empty());
        }
    }

    /// A search path in which `name` is a script of this text, before the usual one.
    fn path_with(folder: &Path, name: &str, text: &str) -> String {
        let file = folder.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
    }

    #[test]
    fn a_host_whose_gzip_does_not_work_gets_the_plain_form() {
        for shell in shells() {
            let home = tempfile::tempdir().unwrap();
            let path = path_with(home.path(), "gzip", "cat >/dev/null; exit 127");
            let mut shell = Shell::run_in(shell, home.path(), &order(None), &path);
            let answer = shell.answer();
            let plain = |answer| {
                matches!(
                    answer,
                    Some(Answer::Need {
                        form: Form::Plain,
                        ..
                    })
                )
            };
            assert!(plain(answer));
            shell.write(PROGRAM);
            assert_eq!(shell.answer(), Some(Answer::Stored));
            let (output, status) = shell.end();
            assert!(
                output.ends_with("\nit's $HOME\n") && status == Some(0),
                "{output}"
            );
            let mut shell = Shell::run_in("sh", home.path(), &order(Some(home.path())), &path);
            assert!(plain(shell.answer()));
            writeln!(shell.input, "{}", PROGRAM.len()).unwrap();
            shell.input.write_all(&PROGRAM[..7]).unwrap();
            assert!(
                shell
                    .end()
                    .0
                    .ends_with(" short only a part of it arrived\n")
            );
        }
    }

    #[test]
    fn a_host_whose_launching_side_is_gone_without_a_word_does_not_wait_for_ever() {
        let home = tempfile::tempdir().unwrap();
        let sooner = r#"shift; PATH=${PATH#*:} exec timeout 1 "$@""#;
        let path = path_with(home.path(), "timeout", sooner);
        let mut shell = Shell::run_in("sh", home.path(), &order(None), &path);
        assert!(matches!(shell.answer(), Some(Answer::Need { .. })));
        // The input stays open.
        shell.input.write_all(b"100\n12345").unwrap();
        assert!(matches!(shell.answer(), Some(Answer::Short(_))));
        assert_eq!(shell.child.wait().unwrap().code(), Some(1));
        assert!(names_in(&home.path().join(".cache").join(FOLDER)).is_empty());
    }

    /// The other architecture is a script too, so that it runs here.
    #[test]
    fn a_host_of_another_architecture_asks_for_its_own_executable_and_runs_it() {
        const OTHER: &[u8] = b"#!/bin/sh\necho the other\n";
        let home = tempfile::tempdir().unwrap();
        let path = path_with(
            home.path(),
            "uname",
            "[ $1 = -m ] && echo quern || echo host",
        );
        let mut both = program(PROGRAM);
        let other = Program::new(PathBuf::new(), OTHER.to_vec(), "quern".to_owned());
        both.others.push(other);
        let order = Order::new(&both, &[], None);
        let mut shell = Shell::run_in("sh", home.path(), &order, &path);
        let answer = shell.answer();
        assert!(matches!(&answer, Some(Answer::Need { arch, .. }) if arch == "quern"));
        shell.write(program(OTHER).packed());
        assert_eq!(shell.answer(), Some(Answer::Stored));
        assert_eq!(shell.end(), ("the other\n".to_owned(), Some(0)));
        let mut again = Shell::run_in("sh", home.path(), &order, &path);
        assert_eq!(again.answer(), Some(Answer::Have));
        again.end();
    }

    #[test]
    fn a_file_of_another_size_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let named = home.path().join("named folder");
        let folder = own(&named);
        std::fs::create_dir_all(&folder).unwrap();
        let order = order(Some(&named));
        let name = format!("{FOLDER}-{}", &program(PROGRAM).digest[..32]);
        std::fs::write(folder.join(&name), "cut off").unwrap();
        std::fs::set_permissions(folder.join(&name), std::fs::Permissions::from_mode(0o700))
            .unwrap();
        let mut shell = Shell::run("sh", home.path(), &order);
        assert!(matches!(
            shell.answer(),
            Some(Answer::Need { index: 1, .. })
        ));
        assert_eq!(shell.copy(), Some(Answer::Stored));
        assert_eq!(shell.end().1, Some(0));
        assert_eq!(std::fs::read(folder.join(&name)).unwrap(), PROGRAM);
    }

    #[test]
    fn old_files_of_ours_go_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let named = home.path().join("d");
        let folder = own(&named);
        std::fs::create_dir_all(&folder).unwrap();
        let days = |name: &str, days: u64| {
            let file = std::fs::File::create(folder.join(name)).unwrap();
            file.set_modified(
                std::time::SystemTime::now() - std::time::Duration::from_secs(days * 86_400),
            )
            .unwrap();
        };
        days(&format!("{FOLDER}-old"), 40);
        days(&format!("{FOLDER}-young"), 20);
        days(&format!("{FOLDER}-x.tmp.stale"), 3);
        days(&format!("{FOLDER}-x.tmp.fresh"), 0);
        days("another", 400);
        let mut shell = Shell::run("sh", home.path(), &order(Some(&named)));
        assert!(matches!(shell.answer(), Some(Answer::Need { .. })));
        assert_eq!(shell.copy(), Some(Answer::Stored));
        shell.end();
        let mut names = names_in(&folder);
        names.retain(|name| !name.contains(&program(PROGRAM).digest[..32]));
        names.sort();
        assert_eq!(
            names,
            [
                "another".to_owned(),
                format!("{FOLDER}-x.tmp.fresh"),
                format!("{FOLDER}-young")
            ]
        );
    }

    #[test]
    fn unusable_folders_are_named_and_the_next_is_tried() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".cache"), "a file is in the way").unwrap();
        let mut shell = Shell::run("sh", home.path(), &order(None));
        let Some(Answer::Note(note)) = shell.answer() else {
            panic!("no note")
        };
        assert!(
            note.contains(".cache") && note.contains("File exists"),
            "{note}"
        );
        let next = shell.answer();
        assert!(
            matches!(next, Some(Answer::Need { index: 2, .. } | Answer::Have)),
            "{next:?}"
        );
        shell.end();
        let named = home.path().join(".cache");
        let mut shell = Shell::run("sh", home.path(), &order(Some(&named)));
        assert!(matches!(shell.answer(), Some(Answer::Note(_))));
        assert_eq!(shell.answer(), Some(Answer::None));
        assert_eq!(shell.end().1, Some(1));
    }

    #[test]
    fn a_sub_folder_that_is_a_link_is_passed_over() {
        let home = tempfile::tempdir().unwrap();
        symlink("/", own(home.path())).unwrap();
        let mut shell = Shell::run("sh", home.path(), &order(Some(home.path())));
        let Some(Answer::Note(note)) = shell.answer() else {
            panic!("no note")
        };
        assert!(note.ends_with("in it is a symbolic link"), "{note}");
        assert_eq!(shell.answer(), Some(Answer::None));
        shell.end();
    }

    /// Scratch file systems have such folders, shared by a group.
    #[test]
    fn a_folder_that_others_may_write_to_gets_a_sub_folder_that_they_may_not() {
        let home = tempfile::tempdir().unwrap();
        let mode = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(home.path(), mode.clone()).unwrap();
        // An earlier version left the sub-folder open; the script closes it.
        std::fs::create_dir(own(home.path())).unwrap();
        std::fs::set_permissions(own(home.path()), mode).unwrap();
        let mut shell = Shell::run("sh", home.path(), &order(Some(home.path())));
        assert!(matches!(shell.answer(), Some(Answer::Need { .. })));
        assert_eq!(shell.copy(), Some(Answer::Stored));
        assert_eq!(shell.end().1, Some(0));
        let made = std::fs::metadata(own(home.path())).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_rotten_copy_of_the_right_size_is_replaced_and_not_started() {
        let home = tempfile::tempdir().unwrap();
        let folder = own(home.path());
        std::fs::create_dir(&folder).unwrap();
        let name = format!("{FOLDER}-{}", &program(PROGRAM).digest[..32]);
        let rotten = String::from_utf8_lossy(PROGRAM).replace("umask", "uname");
        std::fs::write(folder.join(&name), rotten).unwrap();
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(folder.join(&name), mode).unwrap();
        let mut shell = Shell::run("sh", home.path(), &order(Some(home.path())));
        let answer = shell.answer();
        assert!(matches!(answer, Some(Answer::Need { .. })), "{answer:?}");
        assert_eq!(shell.copy(), Some(Answer::Stored));
        shell.end();
        assert_eq!(std::fs::read(folder.join(&name)).unwrap(), PROGRAM);
    }

    /// The folder's owner keeps exchanging what root makes there, for a program that records the user who ran it, for a folder with it, and for
    /// a link to such a folder.
    #[test]
    fn nothing_of_another_users_folder_runs() {
        // As many runs as it takes until some met the attack: on a busy machine the attacker has few turns.
        const LEAST: usize = 12;
        const MOST: usize = 1000;
        if !nix::unistd::geteuid().is_root() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "needs root");
            eprintln!("SKIPPED: only root can be two users");
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("scratch");
        std::fs::create_dir(&folder).unwrap();
        let anyone = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(home.path(), anyone.clone()).unwrap();
        std::fs::set_permissions(&folder, anyone).unwrap();
        let nobody = nix::unistd::Uid::from_raw(65_534);
        nix::unistd::chown(&folder, Some(nobody), None).unwrap();
        let name = format!("{FOLDER}-{}", &program(PROGRAM).digest[..32]);
        let attack = format!(
            "cd {0}; i=0; plant() {{ printf '#!/bin/sh\\nid -u >>{0}/ran-by\\n' >$1; chmod 755 $1; }}
             mkdir -p trap/{FOLDER}-0; plant trap/{FOLDER}-0/{1}
             while :; do
               i=$((i+1)); [ -O {1} ] || {{ plant new; mv -f new {1}; }}
               if [ -e {FOLDER}-0 ] && [ ! -O {FOLDER}-0 ]; then mv {FOLDER}-0 away-$i && echo $i >>swaps; fi
               if [ $((i % 2)) = 0 ]; then mkdir -m 777 {FOLDER}-0 && plant {FOLDER}-0/{1}
               else ln -s trap/{FOLDER}-0 {FOLDER}-0; fi
               rm -rf away-$i {FOLDER}-0
             done 2>/dev/null",
            folder.display(),
            name
        );
        let mut attacker = Command::new("setpriv")
            .args(["--reuid", "65534", "--clear-groups", "sh", "-c", &attack])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let swaps = || {
            std::fs::read_to_string(folder.join("swaps")).map_or(0, |swaps| swaps.lines().count())
        };
        let (mut started, mut runs) = (0, 0);
        while runs < LEAST || (swaps() == 0 && runs < MOST) {
            runs += 1;
            let mut shell = Shell::run("sh", home.path(), &order(Some(&folder)));
            let mut answer = shell.answer();
            if matches!(answer, Some(Answer::Need { .. })) {
                answer = shell.copy();
            }
            started += usize::from(matches!(answer, Some(Answer::Stored | Answer::Have)));
            let (output, status) = shell.end();
            let is_own = output.ends_with("\nit's $HOME\n");
            assert!(is_own || status != Some(0), "{answer:?}: {output}");
        }
        attacker.kill().unwrap();
        attacker.wait().unwrap();
        let by = std::fs::read_to_string(folder.join("ran-by")).unwrap_or_default();
        assert!(!by.lines().any(|uid| uid == "0"), "root ran it");
        let swaps = swaps();
        eprintln!("{started} of {runs} runs started, {swaps} folders of root were exchanged");
        assert!(swaps > 0, "was there an attack?");
    }

    #[test]
    fn excluded_folders_are_skipped_in_silence() {
        let home = tempfile::tempdir().unwrap();
        let order = order(None).without(&BTreeSet::from([1, 2]));
        assert_eq!(order.folders(), 3);
        let mut shell = Shell::run("sh", home.path(), &order);
        let answer = shell.answer();
        assert!(
            matches!(answer, Some(Answer::Need { index: 3, .. } | Answer::Have)),
            "{answer:?}"
        );
        shell.end();
    }

    #[test]
    fn another_machine_is_told_before_anything_is_sent() {
        let home = tempfile::tempdir().unwrap();
        let mut other = program(PROGRAM);
        let machine = std::mem::replace(&mut other.arch, "abacus".to_owned());
        let mut shell = Shell::run("sh", home.path(), &Order::new(&other, &[], None));
        assert_eq!(shell.answer(), Some(Answer::Arch(machine)));
        assert!(names_in(home.path()).is_empty());
        shell.end();
    }

    /// Runs in a private mount namespace, so that no other process sees the mounts.
    #[test]
    fn a_folder_that_is_noexec_or_full_is_named() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("d");
        std::fs::create_dir(&folder).unwrap();
        let order = order(Some(&folder));
        let unshared = |options: &str, before: &str| {
            let command = format!(
                "mount -t tmpfs -o {options} none {0} && {before} && exec sh -s",
                folder.display()
            );
            let mut child = Command::new("unshare")
                .args(["--mount", "sh", "-c", &command])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child
                .stdin
                .take()
                .unwrap()
                .write_all(&[order.script(LIMIT).as_bytes(), PROGRAM].concat())
                .unwrap();
            child.wait_with_output().unwrap()
        };
        let noexec = unshared("noexec,size=1m", "true");
        let text = String::from_utf8_lossy(&noexec.stdout).into_owned();
        if text.is_empty() {
            let why = String::from_utf8_lossy(&noexec.stderr).into_owned();
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "cannot mount: {why}"
            );
            eprintln!("SKIPPED: cannot mount a tmpfs here: {why}");
            return;
        }
        assert!(
            text.contains("cannot be executed (mounted noexec?)"),
            "{text}"
        );
        let full = unshared(
            "size=64k",
            &format!("! cat /dev/zero 2>/dev/null > {}/fill", folder.display()),
        );
        let text = String::from_utf8_lossy(&full.stdout).into_owned();
        assert!(
            text.contains("it cannot be written to: cat: write error: No space left on device"),
            "{text}"
        );
    }

    #[test]
    fn answers_are_read_and_strangers_are_not() {
        assert_eq!(Answer::parse("have /f"), Some(Answer::Have));
        assert_eq!(
            Answer::parse("need 2 gzip quern /a b"),
            Some(Answer::Need {
                index: 2,
                form: Form::Gzip,
                arch: "quern".into(),
                folder: "/a b".into()
            })
        );
        for bad in [
            "need",
            "need x gzip quern /a",
            "need 2 zip quern /a",
            "need 2 gzip quern",
            "",
            "hello",
        ] {
            assert_eq!(Answer::parse(bad), None);
        }
        assert_eq!(folder_word("~/a b"), "\"$HOME\"/'a b'");
        assert_eq!(folder_word("~"), "\"$HOME\"");
        assert_eq!(folder_word("/it's"), r"'/it'\''s'");
    }
}
