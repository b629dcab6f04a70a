//! Network namespaces of a test. They have no name, so that none is left behind.

use std::fs::{File, read_link};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::origins::{absent, is_root};

/// A network namespace, held by a process that ends with this handle, or at the latest with the
/// test: it reads from a pipe of the test.
pub struct Namespace(Child);

impl Namespace {
    /// `None`, with the reason printed, without the right to create one; with `CI=true`, fails
    /// instead.
    pub fn make() -> Option<Self> {
        if !is_root("network namespaces need root") {
            return None;
        }
        let holder = Command::new("unshare").args(["--net", "cat"]).stdin(Stdio::piped()).spawn();
        let mut namespace = match holder {
            Ok(child) => Self(child),
            Err(error) => return absent(&format!("cannot run unshare: {error}")),
        };
        let ours = read_link("/proc/self/ns/net").expect("a namespace of ours");
        while read_link(namespace.file()).is_ok_and(|theirs| theirs == ours) {
            if namespace.0.try_wait().expect("a child of ours").is_some() {
                return absent("unshare may not make a network namespace");
            }
            thread::sleep(Duration::from_millis(1));
        }
        namespace.sh("ip link set lo up");
        Some(namespace)
    }

    /// The process that holds it.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.id()).into()
    }

    /// Runs `work` inside; its sockets and processes stay inside.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let file = File::open(self.file()).expect("its holder lives");
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter");
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs a shell command inside and returns its standard output. Panics with the output on
    /// failure.
    pub fn sh(&self, command: &str) -> String {
        let output = self.run(|| Command::new("sh").args(["-ec", command]).output());
        let output = output.expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Connects it to `other` by a veth pair: `ours` and `theirs` are an interface's name and
    /// address with prefix, as `("up", "10.0.0.1/24")`.
    pub fn join(&self, ours: (&str, &str), other: &Self, theirs: (&str, &str)) {
        let id = other.id();
        self.sh(&format!(
            "ip link add name {} type veth peer name {} netns {id}",
            ours.0, theirs.0
        ));
        for (namespace, (device, address)) in [(self, ours), (other, theirs)] {
            namespace
                .sh(&format!("ip addr add {address} dev {device}; ip link set dev {device} up"));
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
