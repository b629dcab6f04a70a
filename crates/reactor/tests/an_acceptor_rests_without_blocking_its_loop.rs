//! Without a free descriptor, the acceptor returns at once with the time of its next attempt. A
//! pending connection is accepted once there is a descriptor, although no further event arrives.
//!
//! It is the only test in its process, whose limit of open files it lowers.

use std::{
    net::{TcpListener, TcpStream},
    time::Duration,
};

use reactor::{Acceptor, Events, Reactor};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A bound that is reached only if the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn an_acceptor_rests_without_blocking_its_loop() {
    let (reactor, mut events) = (Reactor::new().expect("an epoll"), Events::with_capacity(8));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut acceptor = Acceptor::new(listener, &reactor, 7).expect("a socket");
    assert!(acceptor.accept().is_none() && acceptor.patience().is_none(), "nothing has connected");

    let clients = [(); 2].map(|()| TcpStream::connect(address).expect("it listens"));
    reactor.wait(&mut events, Some(PATIENCE)).expect("an event");
    assert!(events.iter().all(|(token, _)| token == 7));
    acceptor.notice();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).expect("a limit");
    assert!(acceptor.accept().is_none(), "no descriptor is left");
    let rest = acceptor.patience().expect("it tries again by itself");
    assert!(rest <= Duration::from_millis(50), "{rest:?}");

    setrlimit(Resource::Nofile, limit).expect("a limit");
    let mut accepted = Vec::new();
    while accepted.len() < clients.len() {
        // No event arrives: the clients connected before.
        reactor.wait(&mut events, acceptor.patience()).expect("a wait");
        accepted.extend(std::iter::from_fn(|| acceptor.accept()));
    }
    assert!(acceptor.patience().is_none(), "the next wait is for an event");
}
