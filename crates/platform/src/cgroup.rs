//! The memory limit of the process's control group, both versions.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Values above this mean no limit: cgroup version 1 reports a value near 2^63 for none.
const LIMIT_BYTES_MAX: u64 = 1 << 60;
/// Mount point of control groups.
const ROOT: &str = "/sys/fs/cgroup";

/// Returns the lowest memory limit of this process's cgroup and its ancestors, in bytes; `None`
/// without limit.
#[must_use]
pub fn limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_of(&groups, Path::new(ROOT))
}

/// Returns the limit of a process whose `/proc/…/cgroup` is `groups`, with control groups mounted
/// at `root`.
fn limit_of(groups: &str, root: &Path) -> Option<u64> {
    let files = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        match controllers {
            // Above `memory.high` the system throttles the process, so it counts as a limit.
            "" => Some((root.to_owned(), group, &["memory.max", "memory.high"][..])),
            _ if controllers.split(',').any(|name| name == "memory") => {
                Some((root.join("memory"), group, &["memory.limit_in_bytes"][..]))
            }
            _ => None,
        }
    });
    let limits = files.flat_map(|(root, group, names)| {
        let own = root.join(group.trim_start_matches('/'));
        let within = own.ancestors().take_while(|path| path.starts_with(&root));
        within.flat_map(|path| names.iter().map(|name| path.join(name))).collect::<Vec<_>>()
    });
    let read = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    limits.filter_map(read).filter(|&bytes| bytes < LIMIT_BYTES_MAX).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A directory in the layout of the cgroup file systems, with these files.
    struct Shown(PathBuf);

    impl Shown {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("cgroup-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("it is in the root")).expect("made");
                fs::write(path, text).expect("written");
            }
            Self(root)
        }

        fn limit(&self, groups: &str) -> Option<u64> {
            limit_of(groups, &self.0)
        }
    }

    impl Drop for Shown {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn version_two_is_the_least_of_the_group_and_those_around_it() {
        let shown = Shown::new(
            "two",
            &[
                ("system.slice/memory.max", "1073741824\n"),
                ("system.slice/db.service/memory.max", "536870912\n"),
                ("system.slice/db.service/memory.high", "max\n"),
                ("system.slice/other.service/memory.max", "max\n"),
                ("system.slice/other.service/memory.high", "268435456\n"),
                ("user.slice/memory.max", "max\n"),
            ],
        );
        assert_eq!(shown.limit("0::/system.slice/db.service\n"), Some(512 * MIB));
        assert_eq!(shown.limit("0::/system.slice\n"), Some(1024 * MIB));
        assert_eq!(shown.limit("0::/system.slice/other.service\n"), Some(256 * MIB));
        assert_eq!(shown.limit("0::/user.slice\n"), None);
        // The path of the group on the host, which is not visible in the container.
        assert_eq!(shown.limit("0::/system.slice/gone.scope\n"), Some(1024 * MIB));
        assert_eq!(shown.limit("0::/\n"), None);
        assert_eq!(shown.limit("nonsense"), None);
    }

    #[test]
    fn a_limit_that_changes_is_seen() {
        let shown = Shown::new("changes", &[("db/memory.max", "max\n")]);
        assert_eq!(shown.limit("0::/db\n"), None);
        fs::write(shown.0.join("db/memory.max"), "67108864\n").expect("written");
        assert_eq!(shown.limit("0::/db\n"), Some(64 * MIB));
    }

    #[test]
    fn version_one_and_both_at_once() {
        let shown = Shown::new(
            "one",
            &[
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/docker/memory.limit_in_bytes", "134217728\n"),
                ("docker/memory.max", "67108864\n"),
            ],
        );
        assert_eq!(shown.limit("5:cpu,cpuacct:/docker\n4:memory:/docker\n"), Some(128 * MIB));
        assert_eq!(shown.limit("4:memory:/\n"), None);
        assert_eq!(shown.limit("4:memory:/docker\n0::/docker\n"), Some(64 * MIB));
    }
}
