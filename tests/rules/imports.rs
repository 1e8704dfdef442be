//! Dependencies between source files: follows paths through re-exports of modules, and finds cycles.

use std::collections::{BTreeMap, BTreeSet};

/// A module: its names below the crate.
type Module = Vec<String>;

/// One file: its path, and its code without comments and contents of strings.
pub struct File {
    pub path: String,
    pub code: String,
}

impl File {
    /// `src/judge/mod.rs` and `src/judge.rs` are `judge`, `src/judge/view.rs` is `judge::view`.
    fn module(&self) -> Module {
        let inside = self.path.split_once("src/").map_or("", |(_, rest)| rest);
        let names = inside.strip_suffix(".rs").unwrap_or(inside).split('/');
        names
            .filter(|name| !["mod", "lib", "main"].contains(name))
            .map(str::to_owned)
            .collect()
    }
}

/// One path of a `use`, or one that appears in the code.
struct Used {
    names: Vec<String>,
    /// The name under which a `pub use` re-exports it; `*` for everything.
    passed_on_as: Option<String>,
}

/// The modules of a crate and their re-exports, for finding which file uses which.
pub struct Imports<'files> {
    files: &'files [File],
    modules: BTreeMap<Module, usize>,
    passed_on: BTreeMap<Module, Vec<Used>>,
}

impl<'files> Imports<'files> {
    pub fn new(files: &'files [File]) -> Self {
        let numbered = files.iter().enumerate();
        let modules = numbered.map(|(index, file)| (file.module(), index));
        let passed_on = files.iter().map(|file| {
            let uses = uses(&file.code).into_iter();
            let kept = uses.filter(|used| used.passed_on_as.is_some());
            (file.module(), kept.collect())
        });
        Self {
            files,
            modules: modules.collect(),
            passed_on: passed_on.collect(),
        }
    }

    /// For each file, the indexes of the files that it uses. A pure re-export is not a use.
    pub fn edges(&self) -> Vec<BTreeSet<usize>> {
        let of = |(index, file): (usize, &File)| {
            let module = file.module();
            let mut paths: Vec<Vec<String>> = uses(&file.code)
                .into_iter()
                .filter(|used| used.passed_on_as.is_none())
                .map(|used| used.names)
                .collect();
            paths.extend(self.inline(file, &module));
            let targets = paths.iter().filter_map(|path| self.target(path, &module));
            targets.filter(|target| *target != index).collect()
        };
        self.files.iter().enumerate().map(of).collect()
    }

    /// Paths in the code that begin with `crate`, `super` or `self`, or with the name of a module below this one.
    fn inline(&self, file: &File, module: &Module) -> Vec<Vec<String>> {
        let code = without_uses(&file.code);
        let mut found = Vec::new();
        let word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        for path in code.split(|letter: char| !word(letter)) {
            let names: Vec<String> = path.split("::").map(str::to_owned).collect();
            let Some(first) = names.first().filter(|_| names.len() > 1) else {
                continue;
            };
            let below = || {
                self.modules
                    .contains_key(&[module.as_slice(), std::slice::from_ref(first)].concat())
            };
            if ["crate", "super", "self"].contains(&first.as_str()) || below() {
                found.push(names);
            }
        }
        found
    }

    /// The file that defines the target of a path in `module`; `None` outside of this crate.
    fn target(&self, path: &[String], module: &Module) -> Option<usize> {
        let mut at = module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            first => {
                let below = [at.as_slice(), &[first.to_owned()]].concat();
                self.modules.get(&below)?;
            }
        }
        self.descend(at, rest, 0)
    }

    fn descend(&self, mut at: Module, mut rest: &[String], depth: usize) -> Option<usize> {
        const DEEPEST: usize = 8;
        while let Some(name) = rest.first() {
            let below = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&below) {
                (at, rest) = (below, &rest[1..]);
                continue;
            }
            let passed_on = self.passed_on.get(&at)?;
            let named = passed_on
                .iter()
                .find(|used| used.passed_on_as.as_deref() == Some(name));
            if let Some(used) = named.filter(|_| depth < DEEPEST) {
                let mut path = used.names.clone();
                path.extend_from_slice(&rest[1..]);
                if !["crate", "super", "self"].contains(&path[0].as_str()) {
                    path.insert(0, "self".to_owned());
                }
                return match path[0].as_str() {
                    "crate" => self.descend(Vec::new(), &path[1..], depth + 1),
                    "super" => self.descend(at[..at.len() - 1].to_vec(), &path[1..], depth + 1),
                    _ => self.descend(at, &path[1..], depth + 1),
                };
            }
            break;
        }
        // The rest names an item of this module.
        self.modules.get(&at).copied()
    }
}

/// All paths of the `use` lines.
fn uses(code: &str) -> Vec<Used> {
    let mut found = Vec::new();
    for statement in statements(code) {
        let (passed_on, tree) = match statement.split_once("use ") {
            Some((before, tree)) => (before.trim_start().starts_with("pub"), tree),
            None => continue,
        };
        let mut paths = Vec::new();
        spread(tree.trim(), &[], &mut paths);
        for (names, alias) in paths {
            let last = alias.or_else(|| names.last().cloned());
            found.push(Used {
                passed_on_as: last.filter(|_| passed_on),
                names,
            });
        }
    }
    found
}

/// True if a line begins a `use`.
fn begins(line: &str) -> bool {
    let line = line.trim_start();
    let rest = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest.trim_start();
        let end = rest.strip_prefix('(').and_then(|rest| rest.find(')'));
        end.map_or(rest, |end| &rest[end + 2..]).trim_start()
    });
    rest.starts_with("use ")
}

/// The `use` statements, each without its semicolon.
fn statements(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in code.lines() {
        if open.is_none() && begins(line) {
            open = Some(String::new());
        }
        if let Some(statement) = &mut open {
            statement.push_str(line);
            statement.push(' ');
            if line.contains(';') {
                let whole = open.take().unwrap_or_default();
                found.push(whole.split(';').next().unwrap_or_default().to_owned());
            }
        }
    }
    found
}

fn without_uses(code: &str) -> String {
    let mut kept = String::new();
    let mut open = false;
    for line in code.lines() {
        open |= begins(line);
        if open {
            open = !line.contains(';');
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// The paths of a tree such as `a::{b, c::{self, d as e}}`, each with its alias, if any.
fn spread(tree: &str, before: &[String], found: &mut Vec<(Vec<String>, Option<String>)>) {
    let tree = tree.trim();
    if tree.is_empty() {
        return;
    }
    if let Some((head, rest)) = tree.split_once('{') {
        let mut path = before.to_vec();
        path.extend(
            head.split("::")
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(str::to_owned),
        );
        let inside = rest.strip_suffix('}').unwrap_or(rest);
        let (mut depth, mut start) = (0, 0);
        for (at, letter) in inside.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    spread(&inside[start..at], &path, found);
                    start = at + 1;
                }
                _ => {}
            }
        }
        spread(&inside[start..], &path, found);
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut names = before.to_vec();
    names.extend(path.split("::").map(|name| name.trim().to_owned()));
    if names.len() > 1 && names.last().is_some_and(|name| name == "self") {
        names.pop();
    }
    found.push((names, alias));
}

/// Groups of files that use each other in a cycle.
pub fn circles(edges: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..edges.len()).map(|from| reached(edges, from)).collect();
    let mut found: Vec<BTreeSet<usize>> = Vec::new();
    for from in 0..edges.len() {
        let members: BTreeSet<usize> = reach[from]
            .iter()
            .copied()
            .filter(|to| reach[*to].contains(&from))
            .collect();
        if !members.is_empty() && !found.contains(&members) {
            found.push(members);
        }
    }
    found
}

/// Files that are reachable from a file in one or more steps.
///
fn reached(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<usize> = edges[from].iter().copied().collect();
    while let Some(file) = next.pop() {
        if seen.insert(file) {
            next.extend(&edges[file]);
        }
    }
    seen
}
