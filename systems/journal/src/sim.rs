//! A disk that exists only in memory, and loses what real disks lose.
//!
//! Bytes and names that were not synced may survive a crash or not: each sector of 512 bytes by itself, in any order. A sync
//! that fails drops the bytes that it should have written, as Linux does ("fsyncgate", LWN 752063).

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile};

const SECTOR: usize = 512;

/// Faults to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFault {
    /// So many syncs from now, one fails.
    pub failing_sync: Option<u32>,
    /// Bytes of room that the disk has, for all files.
    pub room_bytes: Option<u64>,
    /// Syncs do nothing: the mistake that a test plants.
    pub lies: bool,
}

#[derive(Clone, Default)]
struct SimData {
    /// As programs see it.
    now: Vec<u8>,
    /// As it is after a crash, without luck.
    synced: Vec<u8>,
}

type Names = BTreeMap<String, usize>;

#[derive(Default)]
struct SimState {
    files: Vec<SimData>,
    names: Names,
    synced_names: Names,
    fault: DiskFault,
    /// Counts crashes: files that were open before one are gone.
    life: u32,
}

/// A simulated disk with one directory.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Mutex<SimState>>);

impl SimDisk {
    /// An empty disk.
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    /// Replaces the faults to come.
    pub fn set_fault(&self, fault: DiskFault) {
        self.0.lock().fault = fault;
    }

    /// The power goes, and comes again. Chance decides about everything that was not synced.
    pub fn crash(&self, random: &mut fastrand::Rng) {
        let state = &mut *self.0.lock();
        for file in &mut state.files {
            let len = if random.bool() { file.now.len() } else { file.synced.len() };
            let mut after = file.synced.clone();
            after.resize(len, 0);
            // Some crashes keep nearly all, some nearly nothing.
            let kept = random.u8(0..=4);
            for at in (0..len.min(file.now.len())).step_by(SECTOR) {
                let sector = at..(at + SECTOR).min(len.min(file.now.len()));
                if random.u8(..4) < kept {
                    after[sector.clone()].copy_from_slice(&file.now[sector]);
                }
            }
            (file.now, file.synced) = (after.clone(), after);
        }
        let all: Vec<String> = state.names.keys().chain(state.synced_names.keys()).cloned().collect();
        for name in all {
            let from = if random.bool() { &state.names } else { &state.synced_names };
            match from.get(&name).copied() {
                Some(file) => state.synced_names.insert(name, file),
                None => state.synced_names.remove(&name),
            };
        }
        state.names = state.synced_names.clone();
        state.life += 1;
        state.fault = DiskFault::default();
    }

    /// Flips one bit of a file, on disk.
    pub fn flip(&self, name: &str, bit: u64) {
        let state = &mut *self.0.lock();
        if let Some(file) = state.names.get(name).map(|file| &mut state.files[*file]) {
            for bytes in [&mut file.now, &mut file.synced] {
                if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
    }

    fn find(state: &SimState, name: &str) -> Result<usize> {
        state.names.get(name).copied().ok_or_else(|| Error::from(ErrorKind::NotFound))
    }

    fn file(&self, number: usize, life: u32) -> Box<dyn DiskFile> {
        Box::new(SimFile { disk: self.clone(), number, life })
    }
}

impl Disk for SimDisk {
    fn list(&self) -> Result<Vec<String>> {
        Ok(self.0.lock().names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>> {
        let mut state = self.0.lock();
        state.files.push(SimData::default());
        let number = state.files.len() - 1;
        state.names.insert(name.into(), number);
        Ok(self.file(number, state.life))
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>> {
        let state = self.0.lock();
        Ok(self.file(SimDisk::find(&state, name)?, state.life))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.0.lock();
        state.names.remove(name).map(drop).ok_or_else(|| Error::from(ErrorKind::NotFound))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.0.lock();
        let file = SimDisk::find(&state, from)?;
        state.names.remove(from);
        state.names.insert(to.into(), file);
        Ok(())
    }

    fn sync_directory(&self) -> Result<()> {
        let mut state = self.0.lock();
        state.synced_names = state.names.clone();
        Ok(())
    }
}

struct SimFile {
    disk: SimDisk,
    number: usize,
    life: u32,
}

impl SimFile {
    fn with<R>(&self, act: impl FnOnce(&mut SimState, usize) -> Result<R>) -> Result<R> {
        let mut state = self.disk.0.lock();
        if state.life != self.life {
            return Err(Error::other("the power went"));
        }
        act(&mut state, self.number)
    }

    fn resize(&self, len: usize) -> Result<()> {
        self.with(|state, number| {
            let used: usize = state.names.values().map(|file| state.files[*file].now.len()).sum();
            let grows = len.saturating_sub(state.files[number].now.len());
            if grows > 0 && state.fault.room_bytes.is_some_and(|room| (used + grows) as u64 > room) {
                return Err(ErrorKind::StorageFull.into());
            }
            state.files[number].now.resize(len, 0);
            Ok(())
        })
    }
}

impl DiskFile for SimFile {
    fn len_bytes(&self) -> Result<u64> {
        self.with(|state, number| Ok(state.files[number].now.len() as u64))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.with(|state, number| {
            let bytes = &state.files[number].now;
            let part = bytes.get(offset as usize..offset as usize + out.len());
            out.copy_from_slice(part.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset as usize + bytes.len();
        if end as u64 > self.len_bytes()? {
            self.resize(end)?;
        }
        self.with(|state, number| {
            state.files[number].now[offset as usize..end].copy_from_slice(bytes);
            Ok(())
        })
    }

    fn set_len(&self, len_bytes: u64) -> Result<()> {
        self.resize(len_bytes as usize)
    }

    fn allocate(&self, len_bytes: u64) -> Result<()> {
        self.resize(len_bytes.max(self.len_bytes()?) as usize)
    }

    fn sync(&self) -> Result<()> {
        self.with(|state, number| {
            match &mut state.fault.failing_sync {
                Some(0) => {
                    // The bytes that should have been written are lost, and later syncs succeed.
                    state.fault.failing_sync = None;
                    let file = &mut state.files[number];
                    file.now = file.synced.clone();
                    return Err(Error::other("the disk failed"));
                }
                Some(left) => *left -= 1,
                None => {}
            }
            if !state.fault.lies {
                let file = &mut state.files[number];
                file.synced = file.now.clone();
            }
            Ok(())
        })
    }
}
