//! Memory that an end lets its peer READ: copies, and areas.

use longarm::{RKey, RemoteKey};

use super::{EndId, SimNetwork};
use crate::link::{LinkBusy, PeerArea as _};

/// The address at which the area for READs begins.
const READ_AREA: u64 = 1 << 48;
const READ_AREA_KEY: RKey = RKey(0x00a5_ea00);

pub(super) struct Exposure {
    pub(super) key: RemoteKey,
    pub(super) bytes: Vec<u8>,
}

/// The memory to which a key leads.
pub(super) enum Target {
    Copy(Vec<u8>),
    Area { at: u64, len_bytes: u64 },
}

impl SimNetwork {
    pub(crate) fn expose(&mut self, end: EndId, bytes: Vec<u8>) -> Result<RemoteKey, LinkBusy> {
        let busy = self.connections[end.connection].faults.busy;
        if self.is_unlucky(busy) {
            self.end_mut(end).was_refused = true;
            return Err(LinkBusy);
        }
        let addr = self.next_addr;
        self.next_addr += (bytes.len() as u64).next_multiple_of(64) + 64;
        let key = RemoteKey::from_parts(addr, RKey(self.rng.u32(1..1 << 24)), bytes.len() as u64);
        self.trace.note(self.now_ns, &[4, addr], || format!("{end} exposes {} bytes at {addr:#x}", bytes.len()));
        self.end_mut(end).exposures.push(Exposure { key, bytes });
        Ok(key)
    }

    pub(crate) fn withdraw(&mut self, end: EndId, addr: u64) {
        self.trace.note(self.now_ns, &[5, addr], || format!("{end} withdraws {addr:#x}"));
        self.end_mut(end).exposures.retain(|exposure| exposure.key.addr() != addr);
    }

    /// Copies that the peer may READ now.
    pub(crate) fn exposures(&self, end: EndId) -> usize {
        self.end(end).exposures.len()
    }

    pub(crate) fn read_area_key(&self, end: EndId, at: u64, len_bytes: u64) -> Option<RemoteKey> {
        let area = self.end(end).read_area.as_ref()?;
        let is_inside = at.checked_add(len_bytes).is_some_and(|end| end <= area.len_bytes());
        is_inside.then(|| RemoteKey::from_parts(READ_AREA + at, READ_AREA_KEY, len_bytes))
    }

    /// The memory of an end to which a key leads, if it is there.
    pub(super) fn target(&self, end: EndId, key: &RemoteKey) -> Option<Target> {
        if key.rkey() == READ_AREA_KEY {
            let at = key.addr().checked_sub(READ_AREA)?;
            self.read_area_key(end, at, key.len_bytes())?;
            return Some(Target::Area { at, len_bytes: key.len_bytes() });
        }
        let of_key = |exposure: &&Exposure| exposure.key.rkey() == key.rkey() && exposure.key.addr() <= key.addr();
        let exposure = self.end(end).exposures.iter().find(of_key)?;
        let from = (key.addr() - exposure.key.addr()) as usize;
        let bytes = exposure.bytes.get(from..)?.get(..usize::try_from(key.len_bytes()).ok()?)?;
        Some(Target::Copy(bytes.to_vec()))
    }
}
