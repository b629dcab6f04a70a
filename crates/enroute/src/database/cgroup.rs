//! The memory limit of the process's control group, both versions.

use std::{fs, path::PathBuf};

/// More is no limit: what the first version of control groups writes for none is near 2^63.
const LIMIT_BYTES_MAX: u64 = 1 << 60;

/// The memory limit of this process's group and of the groups around it, in bytes; `None` if there
/// is none.
pub(super) fn limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let files = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        match controllers {
            "" => Some(("/sys/fs/cgroup", group, "memory.max")),
            _ if controllers.split(',').any(|name| name == "memory") => {
                Some(("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
            }
            _ => None,
        }
    });
    let limits = files.flat_map(|(root, group, file)| {
        let own = PathBuf::from(root).join(group.trim_start_matches('/'));
        let within = own.ancestors().take_while(|path| path.starts_with(root));
        within.map(|path| path.join(file)).collect::<Vec<_>>()
    });
    let read = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    limits.filter_map(read).filter(|&bytes| bytes < LIMIT_BYTES_MAX).min()
}
