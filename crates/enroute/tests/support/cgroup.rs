//! A control group of a test, with a memory limit.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::origins::absent;
use super::process::PATIENCE;

/// Names of the files in one version of control groups.
struct Names {
    limit: &'static str,
    /// The limit above which a process is throttled instead of killed.
    pressed: &'static str,
    usage: &'static str,
    unlimited: &'static str,
}

const SECOND: Names = Names {
    limit: "memory.max",
    pressed: "memory.high",
    usage: "memory.current",
    unlimited: "max",
};
const FIRST: Names = Names {
    limit: "memory.limit_in_bytes",
    // With `memory.oom_control` set.
    pressed: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    unlimited: "-1",
};

/// A group below that of this process. It is removed when dropped, so drop its processes before.
pub struct Cgroup {
    directory: PathBuf,
    names: &'static Names,
}

impl Cgroup {
    /// `None`, with the reason printed, if no group with a memory limit can be made.
    pub fn make(name: &str) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let places = groups.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
            let (root, names) = match controllers {
                "" => ("/sys/fs/cgroup", &SECOND),
                "memory" => ("/sys/fs/cgroup/memory", &FIRST),
                _ => return None,
            };
            Some((Path::new(root).join(group.trim_start_matches('/')), names))
        });
        // Tests run concurrently in one process, and may use the same name.
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let mut failures = String::new();
        for (parent, names) in places {
            let directory = parent.join(format!("enroute-test-{}-{number}-{name}", process::id()));
            if let Err(error) = fs::create_dir(&directory) {
                let _ = write!(failures, "; {}: {error}", directory.display());
                continue;
            }
            let group = Self { directory, names };
            if group.directory.join(names.limit).is_file() {
                return Some(group);
            }
            let _ = write!(failures, "; {}: has no {}", group.path().display(), names.limit);
        }
        absent(&format!(
            "no control group with a memory limit can be made, which needs root{failures}"
        ))
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The memory limit of the group, in bytes; `None` without limit.
    pub fn limit(&self) -> Option<u64> {
        self.number(self.names.limit).filter(|&bytes| bytes < 1 << 60)
    }

    pub fn set_limit(&self, bytes: u64) {
        assert!(self.try_limit(bytes), "a group of ours");
    }

    /// Sets the limit; returns false if the kernel cannot reclaim the memory.
    pub fn try_limit(&self, bytes: u64) -> bool {
        fs::write(self.directory.join(self.names.limit), bytes.to_string()).is_ok()
    }

    pub fn lift_limit(&self) {
        let limit = self.directory.join(self.names.limit);
        fs::write(limit, self.names.unlimited).expect("a group of ours");
    }

    /// Memory usage of its processes, in bytes.
    pub fn usage(&self) -> u64 {
        self.number(self.names.usage).expect("a group of ours")
    }

    fn number(&self, name: &str) -> Option<u64> {
        fs::read_to_string(self.directory.join(name)).expect("a group of ours").trim().parse().ok()
    }

    /// Moves a running process into it.
    pub fn take(&self, process: u32) {
        fs::write(self.directory.join("cgroup.procs"), process.to_string()).expect("our process");
    }

    /// Limits the memory to the present usage for a while: a process that needs more waits, and is
    /// not killed.
    pub fn press(&self, lasts: Duration) {
        let write = |file: &str, text: &str| fs::write(self.directory.join(file), text);
        if self.names.pressed == self.names.limit {
            write("memory.oom_control", "1").expect("a group of ours");
        }
        // The process may have grown since its usage was read.
        let _ = write(self.names.pressed, &self.usage().to_string());
        thread::sleep(lasts);
        write(self.names.pressed, self.names.unlimited).expect("a group of ours");
    }

    /// A shell script that moves its process into the group.
    pub fn entry(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.directory.display())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that was just killed remains in the group for a moment.
        let began = Instant::now();
        while fs::remove_dir(&self.directory).is_err() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
    }
}
