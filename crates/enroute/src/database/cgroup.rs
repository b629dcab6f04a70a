//! Following the memory limit of the process's control group.

use std::{fs, path::PathBuf, thread, time::Duration};

use super::Shared;

/// Between two looks at the limit.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// More is no limit: what the first version of control groups writes for none is near 2^63.
const LIMIT_BYTES_MAX: u64 = 1 << 60;

/// The memory limit of this process's group and of the groups around it, in bytes; `None` if there
/// is none.
fn limit() -> Option<u64> {
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

/// Keeps the memory at `percent` of the limit until the end.
pub(super) fn follow(shared: &Shared, percent: u8) {
    let mut last = None;
    while !shared.is_ending() {
        let now = limit();
        if now != last {
            last = now;
            match now {
                Some(bytes) => {
                    let memory_bytes = bytes / 100 * u64::from(percent);
                    tracing::info!(limit_bytes = bytes, memory_bytes, "following the cgroup");
                    shared.rescale(memory_bytes.max(db::parameters::MEMORY_BYTES_MIN));
                }
                None => tracing::warn!("the cgroup has no memory limit to follow"),
            }
        }
        thread::sleep(LOOK_PAUSE);
    }
}
