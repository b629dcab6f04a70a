//! While descriptors run out repeatedly, the log reports at most every 10 s that a connection
//! cannot be accepted, also if others are accepted in between.

use std::{
    net::TcpStream,
    thread::sleep,
    time::{Duration, Instant},
};

use crate::support::keyserver::Site;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// Long enough, on most machines, for another accept.
const PAUSE: Duration = Duration::from_millis(100);
const TOLD_PERIOD_SECONDS: u64 = 10;

#[test]
fn it_tells_seldom_that_it_cannot_accept() {
    let Some(site) = Site::create() else { return };
    let server = site.serve(&[]);
    let process = i32::try_from(server.process().id()).ok().and_then(Pid::from_raw);
    let limit = getrlimit(Resource::Nofile);
    let set = |limit| prlimit(process, Resource::Nofile, limit).expect("a soft limit");
    let began = Instant::now();
    let mut clients = Vec::new();
    for _ in 0..20 {
        set(Rlimit { current: Some(0), ..limit });
        clients.push(TcpStream::connect(server.address).expect("it listens"));
        sleep(PAUSE);
        set(limit);
        sleep(PAUSE);
    }
    server.process().stderr_line("cannot accept").expect("the limit was reached");
    let told = server.process().stderr().matches("cannot accept").count() as u64;
    assert!(told <= 1 + began.elapsed().as_secs() / TOLD_PERIOD_SECONDS, "{told} lines");
}
