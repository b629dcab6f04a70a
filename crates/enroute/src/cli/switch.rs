//! `enroute switch`: NetCache in the kernel's data plane; SwitchV2P in [`v2p`].

mod v2p;

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use switch::{
    agent::{Memory, Store},
    attach::{self, Side},
    explain::{explain, first_of_capture, from_hexadecimal},
    install::Key,
    layout::COUNTERS,
    plane::{DataPlane, Mode},
    saved::{LAYOUT, Saved},
};

use testbed::{command, services};

use super::signal::EndSignal;
use crate::switch::{Sockets, Switch, agent, control, mount, remove, save, saved};

const EXAMPLES: &str = "\
EXAMPLES:
  In front of memcached servers, or on their machine:
    enroute switch attach --interface eth0

  Between clients and servers that speak NetCache's protocol:
    enroute switch attach --interface eth0 --server-interface eth1

  Show the hottest keys every second; show interfaces and counters:
    enroute switch top
    enroute switch status

  Run a captured packet through the program and print the result:
    enroute switch explain packet.pcap

  An in-memory server for NetCache's protocol, behind the switch at 10.0.0.254:
    enroute switch agent --listen 10.0.0.2:50000 --switch 10.0.0.254

  Make the other end of a veth pair accept the program's replies:
    enroute switch accept --interface eth0

  Resolve virtual addresses (SwitchV2P); `enroute switch v2p --help` has more:
    enroute switch v2p status

  The rack of the NetCache paper, 128 servers on this machine, with and without the cache:
    enroute switch rack --skew 0.99
    enroute switch rack --skew 0.99 --cached 0

  Remove the program and its maps:
    enroute switch detach

`attach` runs until interrupted. After that the program stays attached: items of memcached are
served and invalidated as before, items of NetCache's protocol are served until their lease ends
(5 s). A new `attach` begins with an empty cache. See docs/guide/switch.md.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, next_display_order = 900)]
pub(super) struct Arguments {
    /// Directory for the pinned maps and links, below a BPF file system, which is mounted if
    /// missing. `v2p` appends -v2p to the name: its default is /sys/fs/bpf/enroute-switch-v2p
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
    /// Attach the program to interfaces and run its controller until interrupted
    Attach(Attach),
    /// Detach the program from all interfaces and remove its maps
    Detach,
    /// Show interfaces, ports, cached keys and counters
    Status,
    /// Show the hottest keys and the counters, every second
    Top(Top),
    /// Run one packet through the attached program and print what it did
    Explain {
        /// Pcap file, of which the first packet is used, or an Ethernet frame as hexadecimal digits
        packet: String,
    },
    /// Accept the program's replies at the other end of a veth pair; without it the kernel drops
    /// them
    Accept {
        /// Interface in this network namespace
        #[arg(long, value_name = "NAME")]
        interface: String,
    },
    /// Measure the cost of a packet; prints JSON
    #[command(hide = true)]
    Measure(command::measure::Arguments),
    /// Run an in-memory server for NetCache's protocol that a switch can cache
    Agent(Agent),
    /// SwitchV2P: resolve virtual addresses on their way to a gateway
    V2p(v2p::Arguments),
    /// Run the rack of the NetCache paper in network namespaces (`enroute fabric rack` simulates
    /// it)
    Rack(command::rack::Arguments),
}

#[derive(Debug, Args)]
struct Attach {
    /// Interface on which packets of clients arrive; messages that only agents may send are dropped
    /// there. Repeatable
    #[arg(long, value_name = "NAME", required_unless_present = "server_interface")]
    interface: Vec<String>,

    /// Interface on which packets of servers that speak NetCache's protocol arrive; updates of
    /// agents are accepted there and nowhere else. Repeatable, at most 8 [default: NetCache's
    /// protocol is passed through unchanged]
    #[arg(long, value_name = "NAME")]
    server_interface: Vec<String>,

    /// UDP port of NetCache's protocol; the controller uses the next one. 0 passes the protocol
    /// through unchanged
    #[arg(long, value_name = "PORT", default_value_t = 50_000)]
    netcache_port: u16,

    /// UDP and TCP port of memcached; 0 passes the protocol through unchanged
    #[arg(long, value_name = "PORT", default_value_t = 11_211)]
    memcache_port: u16,

    /// Maximum number of cached keys, a multiple of 32
    #[arg(long, value_name = "COUNT", default_value_t = 65_536)]
    entries: u32,

    /// Rows of the register arrays that values share. 0 gives each key its own slot of 1,400 bytes
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    rows: u32,

    /// Number of sampled accesses within a second that make a key hot; a lower one caches more keys
    #[arg(long, value_name = "COUNT", default_value_t = 32)]
    threshold: u16,

    /// Sampling rate of accesses, in 1/65536: 16384 counts a quarter of them, 65536 all
    #[arg(long, value_name = "SHARE", default_value_t = 16_384)]
    sampled: u32,

    /// Size of the count-min sketch: base-2 logarithm of the number of counters in each of its 4
    /// rows
    #[arg(long, value_name = "BITS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=26))]
    sketch_bits: u32,

    /// Size of the Bloom filter: base-2 logarithm of the number of bits in each of its 3 rows
    #[arg(long, value_name = "BITS", default_value_t = 18, value_parser = clap::value_parser!(u32).range(6..=30))]
    filter_bits: u32,

    /// Seed of the hash functions; keep it secret, so that clients cannot choose keys that collide
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    /// Use the kernel's generic XDP even if the driver supports native XDP; each packet then costs
    /// more
    #[arg(long)]
    generic: bool,
}

#[derive(Debug, Args)]
struct Top {
    /// Number of keys shown
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    keys: usize,

    /// Duration in seconds; 0 runs until interrupted
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    seconds: u64,
}

#[derive(Debug, Args)]
struct Agent {
    /// UDP address that clients send to
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "ADDRESS")]
    listen: SocketAddr,

    /// IP address of the switch; its program uses the port of --listen, its controller the next one
    #[arg(long, value_name = "ADDRESS")]
    switch: IpAddr,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.action {
        Action::Attach(attach) => attach_and_control(&arguments.pins, attach),
        Action::Detach => {
            tell_detached(&detach(&arguments.pins)?, &arguments.pins);
            Ok(())
        }
        Action::Status => status(&arguments.pins),
        Action::Top(top) => show_top(&arguments.pins, top),
        Action::Explain { packet } => {
            let frame = frame_of(packet)?;
            print(&explain(&mut loaded(&arguments.pins)?, &frame)?);
            Ok(())
        }
        Action::Accept { interface } => {
            mount(&arguments.pins)?;
            Ok(attach::accept(interface)?.pin(&arguments.pins, interface)?)
        }
        Action::Measure(measure) => measure.run::<Switch>(),
        Action::Agent(agent) => serve(agent),
        Action::V2p(v2p) => v2p::run(&arguments.pins, v2p),
        Action::Rack(rack) => rack.run::<Switch>(),
    }
}

#[allow(clippy::print_stdout, reason = "what was asked for")]
fn print(text: &str) {
    print!("{text}");
}

fn attach_and_control(pins: &Path, arguments: &Attach) -> anyhow::Result<()> {
    let stop = EndSignal::flag()?;
    // Without updates, a key would be served only until it is written, and its writes would wait.
    let hears_agents = !arguments.server_interface.is_empty();
    let loaded = Saved {
        layout: LAYOUT,
        netcache_port: if hears_agents { arguments.netcache_port } else { 0 },
        memcache_port: arguments.memcache_port,
        entries: arguments.entries,
        rows: arguments.rows,
        threshold: arguments.threshold,
        sampled_per_65536: arguments.sampled,
        sketch_bits: arguments.sketch_bits,
        filter_bits: arguments.filter_bits,
        seed: arguments.seed,
    };
    if switch::object::SWITCH.is_none() {
        return Err(switch::Error::NotBuilt.into());
    }
    // All checks come before anything attached is changed.
    for interface in arguments.interface.iter().chain(&arguments.server_interface) {
        attach::number_of(interface)?;
    }
    let _sole = control(pins)?;
    let sockets = Sockets::open(loaded.netcache_port)?;
    mount(pins)?;
    let plane = match attach_everywhere(pins, arguments, &loaded) {
        Ok(plane) => plane,
        Err(error) => {
            // A program without a controller would serve nothing.
            let _ = detach(pins);
            return Err(error);
        }
    };
    if !hears_agents && arguments.netcache_port != 0 {
        eprintln!(
            "NetCache's protocol is passed through unchanged: set --server-interface to the interface towards its \
             servers"
        );
    }
    let mut switch = Switch::new(plane, sockets);
    eprintln!("controlling; Ctrl-C ends the controller, the program stays attached");
    switch.run(&stop)?;
    let (stats, cached) = switch.stats();
    eprintln!("{cached} keys cached; {stats:?}");
    Ok(())
}

/// Loads the program and attaches it to all interfaces. After an error, it is attached to some.
fn attach_everywhere(pins: &Path, arguments: &Attach, loaded: &Saved) -> anyhow::Result<DataPlane> {
    // Maps of another size cannot be reused.
    if !parameters(pins).is_ok_and(|found| found == *loaded) {
        detach(pins)?;
    }
    let mut plane = DataPlane::load(loaded.config(pins.into()))?;
    save(loaded, pins)?;
    plane.clear()?;
    let clients = arguments.interface.iter().map(|name| (name, Side::Clients));
    let servers = arguments.server_interface.iter().map(|name| (name, Side::Servers));
    for (interface, side) in clients.chain(servers) {
        let mode = plane.attach(interface, side, arguments.generic)?;
        let how = match mode {
            Mode::Native => "native mode".to_owned(),
            Mode::Kept => "the mode of the program it replaced".to_owned(),
            Mode::Generic if arguments.generic => "generic mode".to_owned(),
            Mode::Generic => {
                "generic mode: its driver cannot run the program, so every packet costs more".into()
            }
        };
        eprintln!("attached to {interface} in {how}");
    }
    // Packets may have passed while no program was attached.
    plane.clear()?;
    Ok(plane)
}

fn detach(pins: &Path) -> anyhow::Result<Vec<String>> {
    let interfaces = attach::interfaces(pins);
    for interface in &interfaces {
        attach::detach(pins, interface)?;
    }
    remove(pins)?;
    Ok(interfaces)
}

/// Prints from which interfaces a program was detached.
fn tell_detached(interfaces: &[String], pins: &Path) {
    if interfaces.is_empty() {
        print(&format!("nothing was attached with --pins {}\n", pins.display()));
    }
    for interface in interfaces {
        print(&format!("detached from {interface}\n"));
    }
}

fn parameters(pins: &Path) -> anyhow::Result<Saved> {
    saved(pins, "enroute switch attach", Saved::is_of_this_build)
}

fn open(pins: &Path) -> anyhow::Result<DataPlane> {
    Ok(DataPlane::open(parameters(pins)?.config(pins.into()))?)
}

/// A frame from hexadecimal digits, or the first one of a capture.
fn frame_of(argument: &str) -> anyhow::Result<Vec<u8>> {
    if !Path::new(argument).exists() {
        return Ok(from_hexadecimal(argument)?);
    }
    let file = std::fs::read(argument).with_context(|| format!("cannot read {argument}"))?;
    first_of_capture(&file).with_context(|| argument.to_owned())
}

/// With the program, to run packets through it.
fn loaded(pins: &Path) -> anyhow::Result<DataPlane> {
    Ok(DataPlane::load(parameters(pins)?.config(pins.into()))?)
}

fn status(pins: &Path) -> anyhow::Result<()> {
    let plane = open(pins)?;
    let config = plane.config();
    let mut out = format!(
        "interfaces  {}\nports       NetCache {}, memcached {}\nkeys        {} of {}\n",
        attach::interfaces(pins).join(", "),
        config.netcache_port,
        config.memcache_port,
        plane.lookup.places().count(),
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
        for (count, place) in plane.hottest(arguments.keys) {
            let entry = &plane.entries[place as usize];
            let key = if entry.key_bytes.load(Relaxed) == 0 {
                entry.name().to_vec()
            } else {
                entry.key()
            };
            out.push_str(&format!("{count:>8}  {}\n", key.escape_ascii()));
        }
        print(&out);
        before = counts;
    }
    Ok(())
}

fn serve(arguments: &Agent) -> anyhow::Result<()> {
    let stop = EndSignal::flag()?;
    let socket = UdpSocket::bind(arguments.listen)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    eprintln!("listening on {}", socket.local_addr()?);
    let (mut store, receive) = (Memory::default(), agent::receive(&socket));
    let stats = agent::serve(&socket, arguments.switch, &mut store, receive, &stop)?;
    eprintln!("{stats:?}");
    Ok(())
}

/// The service, for the rack and the measurements.
impl services::Switch for Switch {
    fn new(plane: DataPlane) -> anyhow::Result<Self> {
        let sockets = Sockets::open(plane.config().netcache_port)?;
        Ok(Self::new(plane, sockets))
    }

    fn warm(&mut self, keys: &[Key], wait: Duration) -> anyhow::Result<usize> {
        Self::warm(self, keys, wait)
    }

    fn run(&mut self, reports_every: Duration, stop: &AtomicBool) -> anyhow::Result<()> {
        self.take_reports_every(reports_every);
        Self::run(self, stop)
    }

    fn serve(
        socket: &UdpSocket,
        switch: IpAddr,
        store: &mut impl Store,
        receive: impl FnMut(&mut [u8], Duration) -> io::Result<(usize, SocketAddr)>,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        agent::serve(socket, switch, store, receive, stop)?;
        Ok(())
    }
}
