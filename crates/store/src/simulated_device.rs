//! A disk with worst-case behaviour, drawn from one seed.
//!
//! Written bytes are guaranteed only after a sync. After a crash every sector written since the
//! last sync has its former or its last contents, chosen at random for each sector, regardless of
//! the order of the writes; a file whose creation or removal was in progress may exist or not.
//! Reads can fail, bits can flip, and the disk can be full.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

use crate::device::{Device, FileName, Link};

/// Unit of bytes that a crash leaves completely old or completely new.
const SECTOR_BYTES: usize = 512;

/// Faults to inject.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// The device stops at this call, counted from 1 since the last restart: a call that writes
    /// may have written any part.
    pub crash_at: Option<u64>,
    /// Bytes of all files together; creating more fails.
    pub room_bytes: Option<u64>,
    /// One of this many reads fails; none if 0.
    pub failing_read_in: u64,
    /// One of this many syncs or writes fails permanently; none if 0.
    pub failing_write_in: u64,
    /// No other device can share a file of this one, as between two file systems.
    pub refuses_links: bool,
}

#[derive(Debug, Default, Clone)]
struct SimulatedFile {
    /// The contents as read now.
    now: Vec<u8>,
    /// The contents at the last sync.
    safe: Vec<u8>,
    /// Sectors written since.
    dirty: Vec<usize>,
    /// Another device shares it, so it must not be written.
    is_linked: bool,
}

#[derive(Debug)]
struct Disk {
    files: BTreeMap<FileName, SimulatedFile>,
    faults: Faults,
    calls: u64,
    crashed: bool,
    random: SplitMix64,
}

/// Files in memory with the configured failures. A clone is the same device.
#[derive(Debug, Clone)]
pub struct SimulatedDevice {
    disk: Arc<Mutex<Disk>>,
}

impl Disk {
    fn one_in(&mut self, count: u64) -> bool {
        count > 0 && self.random.next_u64().is_multiple_of(count)
    }

    /// Counts a call; true if the device stops in it.
    fn call(&mut self) -> io::Result<bool> {
        if self.crashed {
            return Err(io::Error::other("the device has crashed"));
        }
        self.calls += 1;
        self.crashed = self.faults.crash_at.is_some_and(|at| self.calls >= at);
        Ok(self.crashed)
    }

    fn file(&mut self, name: FileName) -> io::Result<&mut SimulatedFile> {
        self.files.get_mut(&name).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl SimulatedFile {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
        self.dirty.extend(offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
    }
}

impl SimulatedDevice {
    /// An empty disk.
    pub fn new(seed: u64, faults: Faults) -> Self {
        let disk = Disk {
            files: BTreeMap::new(),
            faults,
            calls: 0,
            crashed: false,
            random: SplitMix64::seed_from_u64(seed),
        };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once it stopped; every call fails then.
    pub fn has_crashed(&self) -> bool {
        self.disk().crashed
    }

    /// Calls since the last restart.
    pub fn calls(&self) -> u64 {
        self.disk().calls
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.disk().faults = faults;
    }

    /// Stops the machine, if it has not stopped by itself, and starts it again: this decides the
    /// state of unsynced data.
    pub fn restart(&self, faults: Faults) {
        let mut disk = self.disk();
        let mut files = std::mem::take(&mut disk.files);
        // Some crashes lose everything that was not synced, some nothing, most a part.
        let mood = disk.random.next_u64() % 4;
        for file in files.values_mut() {
            let mut after = file.safe.clone();
            after.resize(file.now.len().max(after.len()), 0);
            file.dirty.sort_unstable();
            file.dirty.dedup();
            for sector in std::mem::take(&mut file.dirty) {
                let written = match mood {
                    0 => false,
                    1 => true,
                    _ => disk.one_in(2),
                };
                let start = sector * SECTOR_BYTES;
                let end = (start + SECTOR_BYTES).min(file.now.len());
                if written {
                    after[start..end].copy_from_slice(&file.now[start..end]);
                }
            }
            file.now = after.clone();
            file.safe = after;
        }
        disk.files = files;
        disk.faults = faults;
        disk.calls = 0;
        disk.crashed = false;
    }

    /// Flips one bit of a file at rest; false if it is not that long.
    pub fn flip(&self, file: FileName, offset: u64, bit: u8) -> bool {
        let mut disk = self.disk();
        let Ok(file) = disk.file(file) else { return false };
        let Some(byte) = file.now.get_mut(offset as usize) else { return false };
        *byte ^= 1 << (bit % 8);
        if let Some(byte) = file.safe.get_mut(offset as usize) {
            *byte ^= 1 << (bit % 8);
        }
        true
    }
}

impl Device for SimulatedDevice {
    fn list(&self) -> io::Result<Vec<(FileName, u64)>> {
        let mut disk = self.disk();
        disk.call()?;
        Ok(disk.files.iter().map(|(name, file)| (*name, file.now.len() as u64)).collect())
    }

    fn read(&self, file: FileName, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut disk = self.disk();
        disk.call()?;
        let one_in = disk.faults.failing_read_in;
        if disk.one_in(one_in) {
            return Err(io::Error::other("simulated read error"));
        }
        let file = disk.file(file)?;
        let range = offset as usize..offset as usize + bytes;
        file.now.get(range).map(<[u8]>::to_vec).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    fn write(&self, file: FileName, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        let crashes = disk.call()?;
        let one_in = disk.faults.failing_write_in;
        if disk.one_in(one_in) {
            return Err(io::Error::other("simulated write error"));
        }
        let written = disk.file(file)?;
        assert!(!written.is_linked, "{file} is written, and another device shares it");
        written.write(offset as usize, bytes);
        if crashes { Err(io::Error::other("the device has crashed")) } else { Ok(()) }
    }

    fn sync(&self, file: FileName) -> io::Result<()> {
        let mut disk = self.disk();
        let crashes = disk.call()?;
        let one_in = disk.faults.failing_write_in;
        if crashes || disk.one_in(one_in) {
            return Err(io::Error::other("simulated sync error"));
        }
        let file = disk.file(file)?;
        file.safe.clone_from(&file.now);
        file.dirty.clear();
        Ok(())
    }

    fn create(&self, file: FileName, bytes: u64) -> io::Result<()> {
        let mut disk = self.disk();
        let crashes = disk.call()?;
        let used: u64 = disk.files.values().map(|file| file.now.len() as u64).sum();
        if disk.faults.room_bytes.is_some_and(|room| used + bytes > room) {
            return Err(ErrorKind::StorageFull.into());
        }
        if crashes && disk.one_in(2) {
            return Err(io::Error::other("the device has crashed"));
        }
        let zeroes = vec![0; bytes as usize];
        let new = SimulatedFile {
            now: zeroes.clone(),
            safe: zeroes,
            dirty: Vec::new(),
            is_linked: false,
        };
        disk.files.insert(file, new);
        if crashes { Err(io::Error::other("the device has crashed")) } else { Ok(()) }
    }

    fn remove(&self, file: FileName) -> io::Result<()> {
        let mut disk = self.disk();
        let crashes = disk.call()?;
        if !crashes || disk.one_in(2) {
            disk.files.remove(&file);
        }
        if crashes { Err(io::Error::other("the device has crashed")) } else { Ok(()) }
    }
}

impl Link for SimulatedDevice {
    fn link(&self, file: FileName, from: &Self) -> io::Result<()> {
        let shared = {
            let mut disk = from.disk();
            if disk.faults.refuses_links {
                return Err(ErrorKind::CrossesDevices.into());
            }
            let shared = disk.file(file)?;
            shared.is_linked = true;
            shared.clone()
        };
        let mut disk = self.disk();
        let crashes = disk.call()?;
        if !crashes || disk.one_in(2) {
            disk.files.insert(file, shared);
        }
        if crashes { Err(io::Error::other("the device has crashed")) } else { Ok(()) }
    }
}
