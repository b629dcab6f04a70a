//! A load generator in the kernel, which sends requests and counts replies: more than
//! any process can send, and independent of the responder.

use aya::{
    Ebpf,
    maps::{Array, MapData},
    programs::{TestRun, TestRunAttrs, TestRunOptions, Xdp, XdpMode, links::FdLink},
};

use crate::Error;

const FRAME_BYTES: usize = 256;
/// Frames sent together.
const BATCH: u32 = 64;

#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    bytes: u32,
    interface: u32,
    keys: u32,
    key_offset: u32,
    asked: u64,
    frame: [u8; FRAME_BYTES],
}

// SAFETY: integers only, no padding.
#[allow(unsafe_code, reason = "what aya asks of a map's value")]
unsafe impl aya::Pod for Raw {}

/// Received replies.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams from the server's port.
    pub answers: u64,
    /// Of them, those with the expected bytes.
    pub found: u64,
    port: u16,
    offset: u16,
    word: [u8; 4],
}

// SAFETY: integers only, no padding.
#[allow(unsafe_code, reason = "what aya asks of a map's value")]
unsafe impl aya::Pod for Tally {}

/// The request to send.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// A frame of at most 256 bytes without a checksum of UDP, which changes with the key.
    pub frame: &'a [u8],
    /// Offset of the 8 digits of the key number.
    pub key_offset: u32,
    /// Number of keys, a power of two.
    pub keys: u32,
}

/// The expected answer: 4 bytes of an answer from a port.
#[derive(Debug, Clone, Copy)]
pub struct Awaited {
    /// The server's port.
    pub port: u16,
    /// Offset in the payload.
    pub offset: u16,
    /// The expected bytes.
    pub word: [u8; 4],
}

/// The client, at one interface.
pub struct Flood {
    ebpf: Ebpf,
    floods: Array<MapData, Raw>,
    tallies: Array<MapData, Tally>,
    _link: FdLink,
    raw: Raw,
}

impl std::fmt::Debug for Flood {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Flood").finish_non_exhaustive()
    }
}

impl Flood {
    /// A client at `interface`, whose number is `index`, in this thread's network namespace.
    ///
    /// # Errors
    /// This build has no data plane, or the kernel refuses.
    ///
    /// # Panics
    /// The frame is longer than 256 bytes.
    pub fn at(
        interface: &str,
        index: u32,
        question: Question<'_>,
        awaited: Awaited,
    ) -> Result<Self, Error> {
        let object = crate::object::FLOOD.ok_or(Error::NotBuilt)?;
        let mut ebpf = Ebpf::load(object).map_err(Error::kernel("cannot load the client"))?;
        for name in ["ask", "tally"] {
            let program = ebpf.program_mut(name).ok_or(Error::Missing(name))?;
            <&mut Xdp>::try_from(program).and_then(Xdp::load).map_err(Error::kernel(name))?;
        }
        let what = format!("cannot attach to {interface}");
        let tally = ebpf.program_mut("tally").ok_or(Error::Missing("tally"))?;
        let tally = <&mut Xdp>::try_from(tally).map_err(Error::kernel(&what))?;
        let id = tally.attach(interface, XdpMode::Driver).map_err(Error::kernel(&what))?;
        let link = tally.take_link(id).map_err(Error::kernel(&what))?;
        let link = FdLink::try_from(link).map_err(Error::kernel(&what))?;
        let mut take = |name| ebpf.take_map(name).ok_or(Error::Missing(name));
        let floods = Array::try_from(take("floods")?).map_err(Error::kernel("floods"))?;
        let mut tallies: Array<MapData, Tally> =
            Array::try_from(take("tallies")?).map_err(Error::kernel("tallies"))?;
        let Awaited { port, offset, word } = awaited;
        let tally = Tally { answers: 0, found: 0, port: port.to_be(), offset, word };
        tallies.set(0, tally, 0).map_err(Error::kernel("tallies"))?;
        let mut raw = Raw {
            bytes: question.frame.len() as u32,
            interface: index,
            keys: question.keys,
            key_offset: question.key_offset,
            asked: 0,
            frame: [0; FRAME_BYTES],
        };
        raw.frame[..question.frame.len()].copy_from_slice(question.frame);
        Ok(Self { ebpf, floods, tallies, _link: link, raw })
    }

    /// Restarts at the first key.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.floods.set(0, self.raw, 0).map_err(Error::kernel("floods"))
    }

    /// Sends this number of requests, at the maximum rate of this processor.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ask(&mut self, times: u32) -> Result<(), Error> {
        let what = "cannot send live frames";
        let program = self.ebpf.program("ask").ok_or(Error::Missing("ask"))?;
        let program = <&Xdp>::try_from(program).map_err(Error::kernel(what))?;
        let options = TestRunOptions {
            data_in: Some(&self.raw.frame[..self.raw.bytes as usize]),
            repeat: times,
            attrs: TestRunAttrs::new().xdp_live_frames(BATCH.min(times)),
            ..TestRunOptions::new()
        };
        program.test_run(options).map_err(Error::kernel(what)).map(drop)
    }

    /// Returns the counts of all answers since the start.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn tally(&self) -> Result<Tally, Error> {
        self.tallies.get(&0, 0).map_err(Error::kernel("tallies"))
    }
}
