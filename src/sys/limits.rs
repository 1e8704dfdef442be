//! Resources that the system still has left: processes, memory, descriptors, shared memory. They are read from `/proc`, `/sys`
//! and `/dev/shm` below a root, so that tests can show limits that cannot be set where they run.
//!
//! A value that cannot be read is no limit: a refusal must be right, and a limit that is missed here fails later with a reason.

use std::path::{Path, PathBuf};

use super::word_after;

/// Amount of a resource that one limit leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Room {
    /// Name of the limit, as an administrator would look for it, with its value where it has one.
    pub limit: String,
    /// Amount that can still be taken.
    pub left: u64,
}

/// Amounts of all resources that were left at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rooms {
    /// Processes and threads.
    pub processes: Vec<Room>,
    /// Memory in bytes.
    pub memory: Vec<Room>,
    /// Open files of all processes of the host.
    pub files: Vec<Room>,
    /// Descriptors of one process.
    pub descriptors: Vec<Room>,
    /// Bytes of named shared memory.
    pub shared: Vec<Room>,
}

impl Rooms {
    /// Reads the limits of this process on this host.
    pub(crate) fn read() -> Self {
        Self::below(Path::new("/"))
    }

    /// Reads the limits from the tree below `root`.
    pub(crate) fn below(root: &Path) -> Self {
        let tree = Tree { root };
        Self {
            processes: tree.processes(),
            memory: tree.memory(),
            files: tree.files(),
            descriptors: tree.own_limit("Max open files", "ulimit -n", 0),
            shared: tree.shared(),
        }
    }
}

/// Memory that all limits leave, in bytes; `None` if unknown.
pub(crate) fn spare_memory() -> Option<u64> {
    let root = Path::new("/");
    let rooms = Tree { root }.memory();
    rooms.iter().map(|room| room.left).min()
}

/// The kernel does not give process ids below this one a second time.
const RESERVED_PIDS: u64 = 300;
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_SYS_RESOURCE: u64 = 1 << 24;
/// Version 1 of control groups writes "no limit" as the largest multiple of a page.
const UNLIMITED: u64 = 1 << 62;

/// The kernel's files below a root.
struct Tree<'root> {
    root: &'root Path,
}

/// One level of a control group hierarchy, and its name.
struct Group {
    folder: PathBuf,
    name: String,
    /// True for the unified hierarchy of version 2.
    unified: bool,
}

impl Tree<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok()
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.split_whitespace().next()?.parse().ok()
    }

    fn processes(&self) -> Vec<Room> {
        let mut rooms = Vec::new();
        // The kernel's own sum has the threads of all users and namespaces.
        let running = self.text("/proc/loadavg").and_then(|text| {
            let share = text.split_whitespace().nth(3)?.to_owned();
            share.split_once('/')?.1.parse().ok()
        });
        let running: u64 = running.unwrap_or(0);
        if let Some(most) = self.number("/proc/sys/kernel/pid_max") {
            let name = format!("kernel.pid_max ({most})");
            // A container can have its own limit. Then only threads of the container count, which are those visible here.
            let used = match running > most / 2 {
                true => self.count_threads(None),
                false => running,
            };
            rooms.push(room(name, most.saturating_sub(RESERVED_PIDS), used));
        }
        if let Some(most) = self.number("/proc/sys/kernel/threads-max") {
            let name = format!("kernel.threads-max ({most})");
            rooms.push(room(name, most, running));
        }
        // Looking at each process takes long where a host has a thousand nodes.
        if !self.may(CAP_SYS_ADMIN | CAP_SYS_RESOURCE, true) {
            let own = self.status_field("self", "Uid:");
            let own = self.count_threads(own.as_deref());
            rooms.extend(self.own_limit("Max processes", "ulimit -u", own));
        }
        for group in self.groups("pids") {
            let most = read_number(&group.folder.join("pids.max"));
            let used = read_number(&group.folder.join("pids.current"));
            if let (Some(most), Some(used)) = (most, used) {
                let name = format!("pids.max ({most}) of control group {}", group.name);
                rooms.push(room(name, most, used));
            }
        }
        rooms
    }

    /// Number of the threads that are visible, of one user or of all.
    fn count_threads(&self, user: Option<&str>) -> u64 {
        let Ok(entries) = std::fs::read_dir(self.path("/proc")) else {
            return 0;
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let pids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let threads_of = |pid: String| {
            let text = self.text(&format!("/proc/{pid}/status"))?;
            let counts = user.is_none() || word_after(&text, "Uid:") == user;
            let threads = word_after(&text, "Threads:").filter(|_| counts)?;
            Some(threads.parse::<u64>().unwrap_or(1))
        };
        pids.filter_map(threads_of).sum()
    }

    fn status_field(&self, pid: &str, name: &str) -> Option<String> {
        let text = self.text(&format!("/proc/{pid}/status"))?;
        word_after(&text, name).map(str::to_owned)
    }

    /// True if this process has one of these capabilities over the whole system. With `root_too`, the user with the number 0 needs none.
    fn may(&self, capabilities: u64, root_too: bool) -> bool {
        let map = self.text("/proc/self/uid_map").unwrap_or_default();
        let words: Vec<&str> = map.split_whitespace().collect();
        if words != ["0", "0", "4294967295"] {
            return false;
        }
        let root = root_too && self.status_field("self", "Uid:").as_deref() == Some("0");
        let effective = self
            .status_field("self", "CapEff:")
            .and_then(|text| u64::from_str_radix(&text, 16).ok())
            .unwrap_or(0);
        root || effective & capabilities != 0
    }

    /// A limit of this process, by its name in `/proc/self/limits`.
    fn own_limit(&self, name: &str, shown: &str, used: u64) -> Vec<Room> {
        let text = self.text("/proc/self/limits").unwrap_or_default();
        let soft = word_after(&text, name).and_then(|word| word.parse::<u64>().ok());
        soft.map(|most| room(format!("{shown} ({most})"), most, used))
            .into_iter()
            .collect()
    }

    fn memory(&self) -> Vec<Room> {
        let mut rooms = Vec::new();
        if let Some(bytes) = self.available_memory() {
            // A tenth stays for the processes that run already.
            rooms.push(Room {
                limit: "free memory".to_owned(),
                left: bytes / 10 * 9,
            });
        }
        for group in self.groups("memory") {
            let (most, used, idle) = if group.unified {
                ("memory.max", "memory.current", "inactive_file")
            } else {
                (
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    "total_inactive_file",
                )
            };
            let (Some(bytes), Some(used)) = (
                read_number(&group.folder.join(most)).filter(|bytes| *bytes < UNLIMITED),
                read_number(&group.folder.join(used)),
            ) else {
                continue;
            };
            // The kernel frees file pages that were not used lately when a process needs room.
            let idle = read_field(&group.folder.join("memory.stat"), idle).unwrap_or(0);
            let name = format!("{most} of control group {}", group.name);
            rooms.push(room(name, bytes, used.saturating_sub(idle)));
        }
        rooms
    }

    fn available_memory(&self) -> Option<u64> {
        let text = self.text("/proc/meminfo")?;
        let kib: u64 = word_after(&text, "MemAvailable:")?.parse().ok()?;
        Some(kib * 1024)
    }

    fn files(&self) -> Vec<Room> {
        if self.may(CAP_SYS_ADMIN, false) {
            return Vec::new();
        }
        let most = self.number("/proc/sys/fs/file-max");
        let used = self.number("/proc/sys/fs/file-nr");
        most.zip(used)
            .map(|(most, used)| room(format!("fs.file-max ({most})"), most, used))
            .into_iter()
            .collect()
    }

    fn shared(&self) -> Vec<Room> {
        let Ok(state) = nix::sys::statvfs::statvfs(&self.path("/dev/shm")) else {
            return Vec::new();
        };
        if state.blocks() == 0 {
            return Vec::new(); // A tmpfs without a size limit.
        }
        vec![Room {
            limit: "/dev/shm".to_owned(),
            left: state.blocks_available() * state.fragment_size(),
        }]
    }

    /// Control groups that limit this process by `controller`: its own group and all visible groups above it.
    fn groups(&self, controller: &str) -> Vec<Group> {
        let own = self.text("/proc/self/cgroup").unwrap_or_default();
        let mounts = self.text("/proc/self/mountinfo").unwrap_or_default();
        let mut groups = Vec::new();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let unified = controllers.is_empty();
            if !unified && !controllers.split(',').any(|one| one == controller) {
                continue;
            }
            let Some((top, mount)) = mount_of(&mounts, controller, unified) else {
                continue;
            };
            // In a container, the mount can begin below the hierarchy's root.
            let inside = path.strip_prefix(top.trim_end_matches('/')).unwrap_or("");
            let mut inside = Path::new(inside.trim_start_matches('/'));
            loop {
                groups.push(Group {
                    folder: self.path(&mount).join(inside),
                    name: format!("/{}", inside.display()),
                    unified,
                });
                match inside.parent() {
                    Some(above) => inside = above,
                    None => break,
                }
            }
        }
        groups
    }
}

/// Mounted part of a hierarchy, and its mount point.
fn mount_of(mounts: &str, controller: &str, unified: bool) -> Option<(String, String)> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split_whitespace();
        let name = kind.next()?;
        let options = kind.nth(1).unwrap_or_default();
        let is_it = if unified {
            name == "cgroup2"
        } else {
            name == "cgroup" && options.split(',').any(|one| one == controller)
        };
        let mut place = place.split_whitespace().skip(3);
        let (top, point) = (place.next()?, place.next()?);
        is_it.then(|| (top.to_owned(), point.to_owned()))
    })
}

fn room(limit: String, most: u64, used: u64) -> Room {
    Room {
        limit,
        left: most.saturating_sub(used),
    }
}

fn read_number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn read_field(path: &Path, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    word_after(&text, &format!("{name} "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a tree of these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    const USER: &str = "Uid:\t1000\t1000\t1000\t1000\nThreads:\t1\nCapEff:\t0000000000000000\n";
    const WHOLE: &str = "         0          0 4294967295\n";

    fn left(rooms: &[Room], start: &str) -> Option<u64> {
        let found = rooms.iter().find(|room| room.limit.starts_with(start))?;
        Some(found.left)
    }

    #[test]
    fn an_empty_tree_has_no_limits() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Rooms::below(folder.path()), Rooms::default());
    }

    #[test]
    fn processes_are_what_the_user_the_kernel_and_every_group_leave() {
        let files = [
            ("proc/self/status", USER),
            ("proc/self/uid_map", WHOLE),
            ("proc/7/status", USER),
            ("proc/8/status", "Uid:\t1000\t0\t0\t0\nThreads:\t4\n"),
            ("proc/9/status", "Uid:\t0\t0\t0\t0\nThreads:\t2\n"),
            ("proc/irq/status", "no process"),
            ("proc/sys/kernel/pid_max", "1000\n"),
            ("proc/sys/kernel/threads-max", "500\n"),
            ("proc/loadavg", "0.00 0.04 0.28 1/85 28368\n"),
            (
                "proc/self/limits",
                "Limit Soft Hard Units\nMax processes             40                   unlimited            processes \n\
                 Max open files            1024                 4096                 files     \n",
            ),
            (
                "proc/self/cgroup",
                "9:name=systemd:/x\n8:pids:/a/b\n0::/c\n",
            ),
            (
                "proc/self/mountinfo",
                "30 25 0:26 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n\
                 31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("sys/fs/cgroup/pids/a/b/pids.max", "max\n"),
            ("sys/fs/cgroup/pids/a/b/pids.current", "5\n"),
            ("sys/fs/cgroup/pids/a/pids.max", "30\n"),
            ("sys/fs/cgroup/pids/a/pids.current", "11\n"),
            ("sys/fs/cgroup/unified/c/pids.max", "64\n"),
            ("sys/fs/cgroup/unified/c/pids.current", "60\n"),
        ];
        let folder = tree(&files);
        let rooms = Rooms::below(folder.path());
        assert_eq!(left(&rooms.processes, "kernel.pid_max (1000)"), Some(615));
        assert_eq!(
            left(&rooms.processes, "kernel.threads-max (500)"),
            Some(415)
        );
        assert_eq!(left(&rooms.processes, "ulimit -u (40)"), Some(35));
        assert_eq!(
            left(&rooms.processes, "pids.max (30) of control group /a"),
            Some(19)
        );
        assert_eq!(
            left(&rooms.processes, "pids.max (64) of control group /c"),
            Some(4)
        );
        assert_eq!(rooms.processes.len(), 5);
        assert_eq!(left(&rooms.descriptors, "ulimit -n (1024)"), Some(1024));
    }

    /// Symptom: in a container with its own limit, the threads of the whole machine counted, and the room for a run was wrong.
    #[test]
    fn where_few_process_ids_are_left_only_visible_threads_count() {
        let folder = tree(&[
            ("proc/self/uid_map", WHOLE),
            ("proc/7/status", USER),
            ("proc/9/status", "Uid:\t0\t0\t0\t0\nThreads:\t2\n"),
            ("proc/sys/kernel/pid_max", "1000\n"),
            ("proc/loadavg", "0.00 0.04 0.28 1/5000 28368\n"),
        ]);
        let rooms = Rooms::below(folder.path());
        assert_eq!(left(&rooms.processes, "kernel.pid_max (1000)"), Some(697));
    }

    #[test]
    fn who_may_do_everything_has_no_limit_of_its_own_unless_in_a_user_namespace() {
        let limits =
            "Max processes             40                   unlimited            processes \n";
        let root = "Uid:\t0\t0\t0\t0\nThreads:\t1\nCapEff:\t000001ffffffffff\n";
        for (map, status, limited) in [
            (WHOLE, root, false),
            (WHOLE, USER, true),
            ("0 1000 1\n", root, true),
        ] {
            let folder = tree(&[
                ("proc/self/limits", limits),
                ("proc/self/status", status),
                ("proc/self/uid_map", map),
                ("proc/sys/fs/file-max", "100\n"),
                ("proc/sys/fs/file-nr", "90\t0\t100\n"),
            ]);
            let rooms = Rooms::below(folder.path());
            assert_eq!(rooms.processes.len(), usize::from(limited), "{map}{status}");
            let expected = limited.then_some(10);
            assert_eq!(left(&rooms.files, "fs.file-max (100)"), expected);
        }
    }

    #[test]
    fn memory_is_the_hosts_and_that_of_every_group_without_idle_pages() {
        let folder = tree(&[
            (
                "proc/meminfo",
                "MemTotal:  999 kB\nMemAvailable:    1000 kB\n",
            ),
            ("proc/self/cgroup", "4:memory,other:/top/a\n0::/top/b\n"),
            (
                "proc/self/mountinfo",
                "30 25 0:26 /top /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                 31 25 0:27 /top /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "3000\n"),
            (
                "sys/fs/cgroup/memory/a/memory.stat",
                "cache 1\ntotal_inactive_file 500\n",
            ),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
            ("sys/fs/cgroup/unified/b/memory.max", "max\n"),
            ("sys/fs/cgroup/unified/memory.max", "7000\n"),
            ("sys/fs/cgroup/unified/memory.current", "4000\n"),
            ("sys/fs/cgroup/unified/memory.stat", "inactive_file 1000\n"),
        ]);
        let rooms = Rooms::below(folder.path());
        assert_eq!(left(&rooms.memory, "free memory"), Some(921_600));
        let name = "memory.limit_in_bytes of control group /a";
        assert_eq!(left(&rooms.memory, name), Some(2500));
        assert_eq!(
            left(&rooms.memory, "memory.max of control group /"),
            Some(4000)
        );
        assert_eq!(rooms.memory.len(), 3);
    }

    #[test]
    fn this_host_has_limits() {
        let rooms = Rooms::read();
        assert!(rooms.processes.len() >= 2, "{rooms:?}");
        assert!(!rooms.memory.is_empty() && !rooms.descriptors.is_empty());
        assert!(rooms.processes.iter().all(|room| room.left > 0));
    }
}
