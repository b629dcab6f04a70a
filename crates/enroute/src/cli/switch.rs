//! `enroute switch`: NetCache in the kernel's data plane.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use switch::{
    agent::Memory,
    attach,
    layout::{COUNTERS, Protocol},
    plane::{DataPlane, Mode},
};

use super::signal::EndSignal;
use crate::switch::{Saved, Switch, agent, explain, frame_of, measure, mount, remove, saved};

const EXAMPLES: &str = "\
EXAMPLES:
  On the machine in front of memcached servers, or on theirs; hot items are answered by the kernel:
    enroute switch attach --interface eth0

  What it does, live; and what it is:
    enroute switch top
    enroute switch status

  One captured packet through the program, and what it did with it:
    enroute switch explain packet.pcap

  A key-value server that speaks NetCache's protocol, behind the switch at 10.0.0.254:
    enroute switch agent --listen 10.0.0.2:50000 --switch 10.0.0.254

  Take everything away again:
    enroute switch detach

`attach` goes on until interrupted. What is cached then stays where it is: memcached's items are
served and invalidated on, NetCache's until their lease is over. `attach` again begins anew.
docs/guide/switch.md tells more.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Where maps and links are kept, below a BPF file system (mounted if it is none)
    #[arg(
        long,
        global = true,
        value_name = "DIRECTORY",
        default_value = "/sys/fs/bpf/enroute-switch"
    )]
    pins: PathBuf,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Put the program on interfaces and control it until interrupted
    Attach(Attach),
    /// Take it away, with all it holds
    Detach,
    /// Say where it is and what it counted
    Status,
    /// Show the hottest keys and what happens each second
    Top(Top),
    /// Run one packet through the program: a pcap file, or hexadecimal digits of an Ethernet frame
    Explain {
        /// The capture, or the digits
        packet: String,
    },
    /// At the other end of a veth pair: let frames in that the program sends back
    Accept {
        /// The interface, in this network namespace
        #[arg(long, value_name = "NAME")]
        interface: String,
    },
    /// Measure what a packet costs, as JSON
    #[command(hide = true)]
    Measure {
        /// Interleaved rounds
        #[arg(long, value_name = "COUNT", default_value_t = 5)]
        rounds: usize,
    },
    /// Serve NetCache's protocol from memory, kept coherent with a switch
    Agent(Agent),
}

#[derive(Debug, Args)]
struct Attach {
    /// Where packets to the servers, and their updates, come in; repeatable
    #[arg(long, value_name = "NAME", required = true)]
    interface: Vec<String>,

    /// UDP port of NetCache's protocol; 0 leaves it alone. The controller listens one above
    #[arg(long, value_name = "PORT", default_value_t = 50_000)]
    netcache_port: u16,

    /// UDP and TCP port of memcached; 0 leaves it alone
    #[arg(long, value_name = "PORT", default_value_t = 11_211)]
    memcache_port: u16,

    /// Keys cached at most, a multiple of 32
    #[arg(long, value_name = "COUNT", default_value_t = 65_536)]
    entries: u32,

    /// Values in register arrays of so many rows, sharing memory; 0 gives each key 1,400 bytes
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    rows: u32,

    /// Sampled accesses in a second from which a key is hot
    #[arg(long, value_name = "COUNT", default_value_t = 32)]
    threshold: u16,

    /// Accesses that are counted, of 65,536
    #[arg(long, value_name = "SHARE", default_value_t = 16_384)]
    sampled: u32,

    /// Keys the hashes, so that nobody knows which keys collide
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    /// Let the kernel run the program, even if the driver could
    #[arg(long)]
    generic: bool,
}

#[derive(Debug, Args)]
struct Top {
    /// Keys shown
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    keys: usize,

    /// End after so many seconds; 0 goes on until interrupted
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    seconds: u64,
}

#[derive(Debug, Args)]
struct Agent {
    /// Where clients reach the server
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,

    /// The switch's address; its program is reached at the same port, its controller one above
    #[arg(long, value_name = "ADDRESS")]
    switch: IpAddr,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.action {
        Action::Attach(attach) => attach_and_control(&arguments.pins, attach),
        Action::Detach => detach(&arguments.pins),
        Action::Status => status(&arguments.pins),
        Action::Top(top) => show_top(&arguments.pins, top),
        Action::Explain { packet } => {
            let frame = frame_of(packet)?;
            print(&explain(&mut open(&arguments.pins)?, &frame)?);
            Ok(())
        }
        Action::Accept { interface } => {
            mount(&arguments.pins)?;
            Ok(attach::accept(&arguments.pins, interface)?)
        }
        Action::Measure { rounds } => {
            let readings = measure::measure(*rounds, |what| eprintln!("{what}"))?;
            print(&serde_json::to_string_pretty(&readings)?);
            Ok(())
        }
        Action::Agent(agent) => serve(agent),
    }
}

#[allow(clippy::print_stdout, reason = "what was asked for")]
fn print(text: &str) {
    print!("{text}");
}

fn attach_and_control(pins: &Path, arguments: &Attach) -> anyhow::Result<()> {
    let stop = EndSignal::flag()?;
    let loaded = Saved {
        netcache_port: arguments.netcache_port,
        memcache_port: arguments.memcache_port,
        entries: arguments.entries,
        rows: arguments.rows,
        threshold: arguments.threshold,
        sampled_per_65536: arguments.sampled,
        seed: arguments.seed,
    };
    if switch::object::SWITCH.is_none() {
        return Err(switch::Error::NotBuilt.into());
    }
    mount(pins)?;
    // Maps of another size cannot be taken over.
    let same =
        |found: Saved| serde_json::to_value(found).ok() == serde_json::to_value(&loaded).ok();
    if !saved(pins).is_ok_and(same) {
        detach(pins)?;
    }
    let mut plane = DataPlane::load(loaded.config(pins.into()))?;
    loaded.save(pins)?;
    plane.clear()?;
    for interface in &arguments.interface {
        let mode = plane.attach(interface, arguments.generic)?;
        let how = match mode {
            Mode::Native => "native mode".to_owned(),
            Mode::Generic if arguments.generic => "generic mode".to_owned(),
            Mode::Generic => {
                "generic mode: its driver cannot run the program, so every packet costs more".into()
            }
        };
        eprintln!("attached to {interface} in {how}");
    }
    // Packets may have passed between the old program and the new one.
    plane.clear()?;
    let mut switch = Switch::new(plane)?;
    eprintln!("controlling; ^C ends this and leaves the program where it is");
    switch.run(&stop)?;
    let (stats, cached) = switch.stats();
    eprintln!("{cached} keys cached; {stats:?}");
    Ok(())
}

fn detach(pins: &Path) -> anyhow::Result<()> {
    for interface in attach::interfaces(pins) {
        attach::detach(pins, &interface)?;
        eprintln!("detached from {interface}");
    }
    remove(pins)
}

fn open(pins: &Path) -> anyhow::Result<DataPlane> {
    Ok(DataPlane::load(saved(pins)?.config(pins.into()))?)
}

fn status(pins: &Path) -> anyhow::Result<()> {
    let plane = open(pins)?;
    let config = plane.config();
    let mut out = format!(
        "interfaces  {}\nports       NetCache {}, memcached {}\nkeys        {} of {}\n",
        attach::interfaces(pins).join(", "),
        config.netcache_port,
        config.memcache_port,
        plane.names().len(),
        config.entries
    );
    for ((name, meaning), count) in COUNTERS.iter().zip(plane.counts()?) {
        out.push_str(&format!("{name:<11} {count:>12}  {meaning}\n"));
    }
    print(&out);
    Ok(())
}

fn show_top(pins: &Path, arguments: &Top) -> anyhow::Result<()> {
    let stop = EndSignal::flag()?;
    let plane = open(pins)?;
    let mut before = plane.counts()?;
    let mut seconds = 0;
    while !stop.load(Relaxed) && (arguments.seconds == 0 || seconds < arguments.seconds) {
        std::thread::sleep(Duration::from_secs(1));
        seconds += 1;
        let counts = plane.counts()?;
        let mut out = String::from("\n");
        for ((name, _), (now, before)) in COUNTERS.iter().zip(counts.iter().zip(before)) {
            if *now > before {
                out.push_str(&format!("{name} {}/s  ", now - before));
            }
        }
        out.push('\n');
        for (count, name, protocol) in Switch::hottest(&plane, arguments.keys) {
            let key = match protocol {
                Protocol::NetCache => name.escape_ascii().to_string(),
                Protocol::Memcache => key_of(&plane, &name),
            };
            out.push_str(&format!("{count:>8}  {key}\n"));
        }
        print(&out);
        before = counts;
    }
    Ok(())
}

/// A memcached key, by its name.
fn key_of(plane: &DataPlane, name: &switch::layout::Name) -> String {
    let place = plane.names().into_iter().find(|(found, _)| found == name).map(|(_, place)| place);
    let Some(entry) = place.and_then(|place| plane.entries.get(place as usize)) else {
        return String::new();
    };
    let bytes = entry.key.0.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
    let key: Vec<u8> = bytes.take(entry.key_bytes.load(Relaxed).into()).collect();
    key.escape_ascii().to_string()
}

fn serve(arguments: &Agent) -> anyhow::Result<()> {
    let stop = EndSignal::flag()?;
    let socket = UdpSocket::bind(arguments.listen)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    eprintln!("listening on {}", socket.local_addr()?);
    let stats = agent::serve(&socket, arguments.switch, &mut Memory::default(), &stop)?;
    eprintln!("{stats:?}");
    Ok(())
}
