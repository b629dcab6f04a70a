//! `enroute link` of the real binary: it relays, prints its address, and at SIGINT prints what was
//! relayed; wrong use is explained in one line.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

fn enroute() -> Command {
    Command::new(env!("CARGO_BIN_EXE_enroute"))
}

#[test]
fn link_command_relays_until_interrupted() {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = origin.local_addr().unwrap().to_string();
    let mut child = enroute()
        .args(["link", "--listen", "127.0.0.1:0", "--to", &to, "--rtt", "2ms"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let (address, _) = line.split_once(" -> ").unwrap();

    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"hello").unwrap();
    let mut server = origin.accept().unwrap().0;
    let mut heard = [0; 5];
    server.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");

    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(rest.contains("up    5 bytes"), "{rest}");
}

#[test]
fn an_address_in_use_is_explained_in_one_line_with_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = enroute().args(["link", "--listen", &address, "--to", &address]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&address) && said.contains("Address already in use"), "{said}");
}

#[test]
fn a_wrong_quantity_is_explained_with_exit_code_2() {
    let output = enroute().args(["link", "--to", "h:1", "--rtt", "164"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("164ms"));
}
