//! Cost of a packet, by `BPF_PROG_TEST_RUN`: ours compared with the smallest possible responder.

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, MapData, ProgramArray},
    programs::{ProgramFd, Xdp, XdpMode, links::FdLink},
};

use crate::{
    Error,
    plane::{DataPlane, run},
};

const FRAME_BYTES: usize = 1152;

/// A request, and the keys it asks for in turn.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// IPv4 and NetCache's protocol, or anything with `keys` 0.
    pub frame: &'a [u8],
    /// Number of keys, a power of two; 0 leaves the frame as it is.
    pub keys: u32,
    /// The number of the first.
    pub first: u32,
    /// Of the first put of one key, if each is to be followed by its update; 0 if not.
    pub version: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    bytes: u32,
    keys: u32,
    first: u32,
    counter: u32,
    version: u64,
    frame: [u8; FRAME_BYTES],
}

// SAFETY: integers only, no padding.
#[allow(unsafe_code, reason = "what aya asks of a map's value")]
unsafe impl aya::Pod for Raw {}

/// The smallest responder, and the program that runs others repeatedly.
pub struct Measure {
    again: Ebpf,
    next: ProgramArray<MapData>,
    requests: Array<MapData, Raw>,
    smallest: Ebpf,
    items: HashMap<MapData, [u8; 16], [u64; 16]>,
    links: Vec<FdLink>,
}

impl std::fmt::Debug for Measure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Measure").finish_non_exhaustive()
    }
}

/// The program to measure.
#[derive(Debug)]
pub enum Program<'a> {
    /// Ours.
    Switch(&'a DataPlane),
    /// The smallest responder.
    Smallest,
    /// A program that does nothing: the cost of measuring.
    Nothing,
}

impl Measure {
    /// Loads both; the smallest responder has room for this many keys.
    ///
    /// # Errors
    /// This build has no data plane, or the kernel refuses.
    pub fn load(keys: u32) -> Result<Self, Error> {
        let load = |object: Option<&[u8]>, names: &[&'static str]| -> Result<Ebpf, Error> {
            let mut ebpf = EbpfLoader::new()
                .map_max_entries("items", keys)
                .load(object.ok_or(Error::NotBuilt)?)
                .map_err(Error::kernel("cannot load the program for measurements"))?;
            for name in names {
                let program = ebpf.program_mut(name).ok_or(Error::Missing(name))?;
                <&mut Xdp>::try_from(program).and_then(Xdp::load).map_err(Error::kernel(*name))?;
            }
            Ok(ebpf)
        };
        let mut again = load(crate::object::AGAIN, &["again"])?;
        let mut smallest = load(crate::object::SMALLEST, &["respond", "pass"])?;
        let take = |ebpf: &mut Ebpf, name| ebpf.take_map(name).ok_or(Error::Missing(name));
        Ok(Self {
            next: ProgramArray::try_from(take(&mut again, "next")?)
                .map_err(Error::kernel("next"))?,
            requests: Array::try_from(take(&mut again, "requests")?)
                .map_err(Error::kernel("requests"))?,
            items: HashMap::try_from(take(&mut smallest, "items")?)
                .map_err(Error::kernel("items"))?,
            again,
            smallest,
            links: Vec::new(),
        })
    }

    /// Attaches the smallest responder to an interface until this is dropped.
    ///
    /// # Errors
    /// There is no such interface, or its driver runs no program.
    pub fn attach(&mut self, interface: &str) -> Result<(), Error> {
        let what = format!("cannot respond at {interface}");
        let program = self.smallest.program_mut("respond").ok_or(Error::Missing("respond"))?;
        let xdp = <&mut Xdp>::try_from(program).map_err(Error::kernel(&what))?;
        let id = xdp.attach(interface, XdpMode::Driver).map_err(Error::kernel(&what))?;
        let link = xdp.take_link(id).map_err(Error::kernel(&what))?;
        self.links.push(FdLink::try_from(link).map_err(Error::kernel(&what))?);
        Ok(())
    }

    /// Gives the smallest responder a key.
    ///
    /// # Errors
    /// Its table is full.
    pub fn store(&mut self, key: [u8; 16], value: [u64; 16]) -> Result<(), Error> {
        self.items.insert(key, value, 0).map_err(Error::kernel("cannot store"))
    }

    /// Nanoseconds a packet, measuring included, over `repeat` packets.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ns(
        &mut self,
        program: &Program<'_>,
        request: Request<'_>,
        repeat: u32,
    ) -> Result<u64, Error> {
        let mut raw = Raw {
            bytes: request.frame.len() as u32,
            keys: request.keys,
            first: request.first,
            counter: 0,
            version: request.version,
            frame: [0; FRAME_BYTES],
        };
        let bytes = request.frame.len().min(FRAME_BYTES);
        raw.frame[..bytes].copy_from_slice(&request.frame[..bytes]);
        self.requests.set(0, raw, 0).map_err(Error::kernel("requests"))?;
        let fd = match program {
            Program::Switch(plane) => plane.serve_fd()?,
            Program::Smallest => fd_of(&self.smallest, "respond")?,
            Program::Nothing => fd_of(&self.smallest, "pass")?,
        };
        self.next.set(0, fd, 0).map_err(Error::kernel("next"))?;
        let again = self.again.program("again").ok_or(Error::Missing("again"))?;
        Ok(run(again, request.frame, repeat)?.ns)
    }
}

fn fd_of<'a>(ebpf: &'a Ebpf, name: &'static str) -> Result<&'a ProgramFd, Error> {
    let program = ebpf.program(name).ok_or(Error::Missing(name))?;
    let program = <&Xdp>::try_from(program).map_err(Error::kernel(name))?;
    program.fd().map_err(Error::kernel(name))
}
