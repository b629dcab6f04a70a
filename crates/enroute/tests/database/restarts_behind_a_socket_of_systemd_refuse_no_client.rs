//! A service that is handed its listening socket, as systemd does it, serves the clients that
//! connected while it was not running. A socket with another address is refused.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::Command;

use crate::support::directory::TemporaryDirectory;
use crate::support::enroute::program;
use crate::support::origins::Redis;
use crate::support::process::Process;
use crate::support::raw::Raw;

/// Hands over standard input as the protocol of sd_listen_fds(3) demands.
const HAND_OVER: &str = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";

fn listening() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    (socket, address)
}

fn start(socket: &TcpListener, arguments: &[&str]) -> Process {
    let socket: OwnedFd = socket.try_clone().expect("a descriptor").into();
    Process::start_reading(
        Command::new("sh").args(["-c", HAND_OVER]).arg(program()).args(arguments),
        socket,
    )
}

fn end(process: Process) {
    let ended = process.terminate();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn the_database_answers_clients_that_waited_for_its_restart() {
    let directory = TemporaryDirectory::create();
    let (socket, address) = listening();
    let data = directory.path().join("data").display().to_string();
    let listen = address.to_string();
    let arguments = ["db", "--dir", &data, "--listen", &listen];

    let mut early = Raw::connect(address);
    early.command("SET greeting hello");
    let process = start(&socket, &arguments);
    early.hear("+OK\r\n");
    end(process);

    let mut between = Raw::connect(address);
    between.command("GET greeting");
    let process = start(&socket, &arguments);
    between.hear("$5\r\nhello\r\n");
    end(process);
}

#[test]
fn the_cache_answers_clients_that_waited_for_its_restart() {
    let Some(redis) = Redis::start() else { return };
    let (socket, address) = listening();
    let (listen, origin) = (format!("redis://{address}"), format!("redis://{}", redis.address()));
    let arguments = ["cache", "--listen", &listen, "--origin", &origin];
    for _ in 0..2 {
        let mut waiting = Raw::connect(address);
        waiting.command("PING");
        let process = start(&socket, &arguments);
        waiting.hear("+PONG\r\n");
        end(process);
    }
}

#[test]
fn a_socket_with_another_address_is_refused() {
    let directory = TemporaryDirectory::create();
    let (socket, found) = listening();
    let data = directory.path().join("data").display().to_string();
    let ended = start(&socket, &["db", "--dir", &data, "--listen", "127.0.0.2:0"]).wait();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let expected = format!("with this address, found {found}; correct ListenStream=");
    assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
    assert!(ended.stderr.contains("cannot listen on 127.0.0.2:0"), "{}", ended.stderr);
}
