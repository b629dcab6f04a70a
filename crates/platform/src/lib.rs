//! # platform: what services take from the operating system
//!
//! Tier 2: files with secrets, locks of files, the wall clock, random bytes, the memory of the
//! process, threads of low priority, connections to servers, signals, and TLS (rustls) from files.
//! Each is one rule that all services follow.
//!
//! It is not a service: it reads no configuration and no arguments. Event loops are in `reactor`,
//! HTTP endpoints in `endpoint`, and the TLS of the edge is in `edge-tls`.
//!
//! Read first: [`tls`] for encryption, [`memory`] for the memory of a process.
//!
//! | module | what it is |
//! |---|---|
//! | [`certificate`] | warnings about the expiry of certificates |
//! | [`cgroup`] | memory limit of the control group of the process |
//! | [`directory`] | a directory that is held open |
//! | [`diverted`] | where connections wanted to go that the kernel has diverted |
//! | [`dns`] | services that DNS names: SRV and TXT records |
//! | [`governed`] | a stream whose reads are governed |
//! | [`harden`] | keeps secrets in the memory of the process |
//! | [`listening`] | listening sockets, of systemd or new |
//! | [`lock`] | a file that one process at a time may hold |
//! | [`memory`] | memory budget of the process; data in transit ([`memory::transit`]) |
//! | [`open_files`] | number of files that the process may have open |
//! | [`pins`] | state of a data plane in a BPF file system, and its parameters in a file |
//! | [`place`] | where a server is that may move |
//! | [`private_file`] | files with secrets, refused where other users can read them |
//! | [`random`] | random bytes of the system |
//! | [`reached`] | connections to servers, with or without TLS |
//! | [`signal`] | signals that end a process, or have it reload |
//! | [`slow_lane`] | threads of low priority for slow operations |
//! | [`succession`] | replacing a running service by a new process, with its sockets |
//! | [`terminal`] | frames drawn in place of each other, and single keys |
//! | [`tls`] | TLS of servers and clients: certificates, keys and authorities, from files |
//! | [`tool`] | tools of the system, run as programs |
//! | [`wall_clock`] | time since the Unix epoch |

// Allowed in `listening.rs`, `succession.rs`, `lock.rs` and `memory/heap.rs` only, each with its
// reason.
#![deny(unsafe_code)]

pub mod certificate;
pub mod cgroup;
pub mod directory;
pub mod diverted;
pub mod dns;
pub mod governed;
pub mod harden;
pub mod listening;
pub mod lock;
pub mod memory;
pub mod open_files;
pub mod pins;
pub mod place;
pub mod private_file;
pub mod random;
pub mod reached;
pub mod signal;
pub mod slow_lane;
pub mod succession;
pub mod terminal;
pub mod tls;
pub mod tool;
pub mod wall_clock;
