//! A feed with a wrong password logs this once, and retries with exponential backoff.

use std::time::{Duration, Instant};

use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::process::PATIENCE;

#[test]
fn feed_that_is_refused_backs_off() {
    let Some(redis) = Redis::start() else { return };
    let mut direct = redis.connection();
    let set = "SETUSER feed on >right +@all allkeys allchannels";
    let mut command = redis::cmd("ACL");
    command.arg(set.split(' ').collect::<Vec<_>>());
    let () = command.query(&mut direct).expect("a user");
    let file = std::env::temp_dir().join(format!("enroute-feed-{}", std::process::id()));
    std::fs::write(&file, "wrong\n").expect("a writable directory");
    let options = format!("feed = {{ user = \"feed\", password_file = \"{}\" }}", file.display());
    let began = Instant::now();
    let cache = Cache::start_all(&[("redis", redis.address(), &options)], "");
    let mut refused = || -> usize {
        let log: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query(&mut direct).expect("told");
        let entries: Vec<Vec<redis::Value>> =
            log.into_iter().map(|entry| redis::from_redis_value(entry).expect("pairs")).collect();
        let count = entries.iter().flat_map(|pairs| pairs.chunks(2)).find_map(|pair| match pair {
            [redis::Value::BulkString(name), redis::Value::Int(count)] if name == b"count" => {
                Some(*count as usize)
            }
            _ => None,
        });
        count.unwrap_or(0)
    };
    while refused() < 6 {
        assert!(began.elapsed() < PATIENCE, "refused {} times", refused());
    }
    let _ = std::fs::remove_file(&file);
    let log = cache.process().stderr();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("feed lost")).collect();
    assert!(told.len() == 1 && told[0].contains("WRONGPASS"), "{told:#?}");
    // One refusal is the watch's; the intervals between the feed's five are 0.25, 0.5, 1 and 2 s.
    assert!(began.elapsed() > Duration::from_secs(3), "it does not back off");
}
