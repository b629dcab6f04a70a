//! A control group of the test's own, with a memory limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use super::origins::absent;
use super::process::PATIENCE;

/// A group below the one this process is in; removed when dropped, so drop what is in it before.
pub struct Cgroup {
    directory: PathBuf,
    limit: &'static str,
}

impl Cgroup {
    /// None, after saying why, where no group with a memory limit can be made.
    pub fn make(name: &str) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let places = groups.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
            let (root, limit) = match controllers {
                "" => ("/sys/fs/cgroup", "memory.max"),
                "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                _ => return None,
            };
            Some((Path::new(root).join(group.trim_start_matches('/')), limit))
        });
        for (parent, limit) in places {
            let directory = parent.join(format!("enroute-test-{}-{name}", process::id()));
            if fs::create_dir(&directory).is_err() {
                continue;
            }
            let group = Self { directory, limit };
            if group.directory.join(limit).is_file() {
                return Some(group);
            }
        }
        absent("no control group with a memory limit can be made: that needs root")
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Its limit, in bytes; `None` if there is none.
    pub fn limit(&self) -> Option<u64> {
        let text = fs::read_to_string(self.directory.join(self.limit)).expect("a group of ours");
        text.trim().parse().ok().filter(|&bytes| bytes < 1 << 60)
    }

    pub fn set_limit(&self, bytes: u64) {
        fs::write(self.directory.join(self.limit), bytes.to_string()).expect("a group of ours");
    }

    /// Puts a process into it that runs already.
    pub fn take(&self, process: u32) {
        fs::write(self.directory.join("cgroup.procs"), process.to_string()).expect("our process");
    }

    /// Lets nothing in it have more memory than now, for a while: what asks for more waits for it, and is not
    /// killed.
    pub fn press(&self, lasts: Duration) {
        let write = |file: &str, text: &str| fs::write(self.directory.join(file), text);
        let read = |file: &str| fs::read_to_string(self.directory.join(file));
        let (now, limit, none) = match self.limit {
            "memory.max" => ("memory.current", "memory.high", "max"),
            _ => {
                write("memory.oom_control", "1").expect("a group of ours");
                ("memory.usage_in_bytes", self.limit, "-1")
            }
        };
        // In the moment between, it may have come to have more.
        let _ = write(limit, read(now).expect("a group of ours").trim());
        thread::sleep(lasts);
        write(limit, none).expect("a group of ours");
    }

    /// The script that puts a process into it.
    pub fn entry(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.directory.display())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that was just killed is in it for a little longer.
        let began = Instant::now();
        while fs::remove_dir(&self.directory).is_err() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
    }
}
