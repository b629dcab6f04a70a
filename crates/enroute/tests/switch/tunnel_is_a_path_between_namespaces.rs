//! Packets between two network namespaces of the test: delayed, lost, cut and restored, and nothing
//! is left behind. Skipped without root.

use std::fs::{File, read_link, read_to_string};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use testbed::link::{LinkHandle, PathConfig, Tunnel, TunnelConfig, TunnelEnd};

const MS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// A network namespace, held by an idle process.
struct Namespace(Child);

impl Namespace {
    /// `None`, with the reason printed, where the right to make one is missing.
    fn make() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: network namespaces need root");
            return None;
        }
        let holder = Command::new("unshare").args(["--net", "sleep", "infinity"]).spawn();
        let mut namespace = match holder {
            Ok(child) => Self(child),
            Err(error) => {
                println!("skipped: cannot run unshare: {error}");
                return None;
            }
        };
        let ours = read_link("/proc/self/ns/net").unwrap();
        while read_link(namespace.file()).is_ok_and(|theirs| theirs == ours) {
            if namespace.0.try_wait().unwrap().is_some() {
                println!("skipped: unshare may not make a network namespace");
                return None;
            }
            thread::sleep(MS);
        }
        Some(namespace)
    }

    fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }

    /// Runs `work` inside; its sockets stay inside.
    fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let file = File::open(self.file()).unwrap();
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            inside.join().unwrap()
        })
    }

    fn end(&self, address: &str) -> TunnelEnd {
        TunnelEnd {
            namespace: Some(self.file()),
            device: "enroute%d".into(),
            address: address.parse().unwrap(),
        }
    }

    fn devices(&self) -> String {
        self.run(|| read_to_string("/proc/thread-self/net/dev").unwrap())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two namespaces and a tunnel between them: 10.77.0.1 is in `a`, 10.77.0.2 in `b`.
fn tunnel(change: impl FnOnce(&mut TunnelConfig)) -> Option<(Namespace, Namespace, LinkHandle)> {
    let (a, b) = (Namespace::make()?, Namespace::make()?);
    let mut config = TunnelConfig::new(a.end("10.77.0.1/30"), b.end("10.77.0.2/30"));
    change(&mut config);
    let tunnel = Tunnel::start(config).unwrap();
    Some((a, b, tunnel))
}

fn udp(a: &Namespace, b: &Namespace) -> (UdpSocket, UdpSocket) {
    let client = a.run(|| UdpSocket::bind("10.77.0.1:0").unwrap());
    let server = b.run(|| UdpSocket::bind("10.77.0.2:0").unwrap());
    client.connect(server.local_addr().unwrap()).unwrap();
    server.connect(client.local_addr().unwrap()).unwrap();
    (client, server)
}

fn connect(a: &Namespace, b: &Namespace) -> (TcpStream, TcpStream) {
    let listener = b.run(|| TcpListener::bind("10.77.0.2:0").unwrap());
    let address = listener.local_addr().unwrap();
    let client = a.run(|| TcpStream::connect(address).unwrap());
    (client, listener.accept().unwrap().0)
}

#[test]
fn a_handshake_and_a_round_trip_take_at_least_the_asked_time() {
    let Some((a, b, tunnel)) = tunnel(|config| {
        config.up.delay = 12 * MS;
        config.down.delay = 8 * MS;
    }) else {
        return;
    };
    let connecting = Instant::now();
    let (mut client, mut server) = connect(&a, &b);
    assert!(connecting.elapsed() >= 20 * MS);
    let sent = Instant::now();
    client.write_all(b"ping").unwrap();
    server.read_exact(&mut [0; 4]).unwrap();
    server.write_all(b"pong").unwrap();
    client.read_exact(&mut [0; 4]).unwrap();
    assert!(sent.elapsed() >= 20 * MS);
    assert!(tunnel.stop().up.packets >= 3);
}

fn bulk(path: PathConfig) {
    let Some((a, b, tunnel)) = tunnel(|config| {
        config.up = path.clone();
        config.down = path;
    }) else {
        return;
    };
    let (mut client, mut server) = connect(&a, &b);
    let sent: Vec<u8> =
        (0..3_000_000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let expected = sent.clone();
    let sending = thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client
    });
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    sending.join().unwrap();
    assert!(received == expected, "bytes changed on the way");
    assert!(tunnel.stop().up.bytes >= 3_000_000);
}

#[test]
fn bytes_survive_offload() {
    bulk(PathConfig { delay: MS, ..PathConfig::default() });
}

#[test]
fn bytes_survive_loss_jitter_rate_reordering_and_repetition() {
    bulk(PathConfig {
        delay: 3 * MS,
        jitter: MS,
        loss: 0.005,
        bits_per_second: Some(300_000_000),
        reorder: true,
        duplicate: 0.01,
        ..PathConfig::default()
    });
}

#[test]
fn every_packet_arrives_or_is_counted_as_lost() {
    let Some((a, b, tunnel)) = tunnel(|config| config.up.loss = 0.2) else { return };
    let (client, server) = udp(&a, &b);
    let before = tunnel.stats().up;
    for number in 0..200_u32 {
        client.send(&number.to_be_bytes()).unwrap();
    }
    server.set_read_timeout(Some(MS)).unwrap();
    let lost = || tunnel.stats().up.lost - before.lost;
    let (mut arrived, began) = (Vec::new(), Instant::now());
    // Other traffic of the kernel may cross, too, so this is a lower bound.
    while arrived.len() as u64 + lost() < 200 {
        let mut packet = [0; 4];
        if server.recv(&mut packet).is_ok() {
            arrived.push(u32::from_be_bytes(packet));
        }
        assert!(began.elapsed() < PATIENCE, "{} arrived and {} are lost", arrived.len(), lost());
    }
    assert!(arrived.is_sorted());
    assert!(lost() > 0 && arrived.len() < 200, "{} arrived", arrived.len());
}

#[test]
fn a_cut_loses_packets_and_restore_ends_it() {
    let Some((a, b, tunnel)) = tunnel(|_| ()) else { return };
    let (client, server) = udp(&a, &b);
    tunnel.cut();
    client.send(b"lost").unwrap();
    while tunnel.stats().up.lost == 0 {
        thread::sleep(MS);
    }
    server.set_read_timeout(Some(20 * MS)).unwrap();
    assert_eq!(server.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    tunnel.restore();
    server.set_read_timeout(None).unwrap();
    client.send(b"arrives").unwrap();
    // The first may have waited in the device until the restore; the second must arrive.
    while server.recv(&mut [0; 8]).unwrap() != 7 {}
}

#[test]
fn the_devices_vanish_when_it_stops() {
    let Some((a, b, tunnel)) = tunnel(|_| ()) else { return };
    assert!(a.devices().contains("enroute0") && b.devices().contains("enroute0"));
    drop(tunnel);
    let began = Instant::now();
    // A process that another test starts has them open until it executes its program.
    while a.devices().contains("enroute0") || b.devices().contains("enroute0") {
        assert!(began.elapsed() < PATIENCE, "{} {}", a.devices(), b.devices());
        thread::sleep(MS);
    }
}

#[test]
fn a_missing_namespace_is_named_in_the_error() {
    let Some(a) = Namespace::make() else { return };
    let mut missing = a.end("10.77.0.2/30");
    missing.namespace = Some("/run/netns/nobody-made-this".into());
    let error = Tunnel::start(TunnelConfig::new(a.end("10.77.0.1/30"), missing)).unwrap_err();
    assert!(error.to_string().contains("nobody-made-this"), "{error}");
}

#[test]
fn the_command_tunnels_until_interrupted() {
    let (Some(a), Some(b)) = (Namespace::make(), Namespace::make()) else { return };
    let (file_a, file_b) = (a.file(), b.file());
    let mut child = Command::new(env!("CARGO_BIN_EXE_enroute"))
        .args(["link", "--tun", "--rtt", "2ms"])
        .args(["--address-a", "10.77.0.1/30", "--address-b", "10.77.0.2/30"])
        .args(["--namespace-a".as_ref(), file_a.as_os_str()])
        .args(["--namespace-b".as_ref(), file_b.as_os_str()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = child.stderr.take().unwrap();
    // The first byte of its output means that the devices are up.
    said.read_exact(&mut [0; 1]).unwrap();
    let (client, server) = udp(&a, &b);
    client.send(b"hello").unwrap();
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 5);
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    assert!(!a.devices().contains("enroute0"));
}
