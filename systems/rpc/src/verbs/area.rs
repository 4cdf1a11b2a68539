//! Areas as parts of registered memory.

use std::sync::Arc;

use longarm::{Access, KeyError, MemoryRegion, ProtectionDomain, RemoteKey, ResourceError};

use crate::link::PeerArea;
use crate::verbs::shelf::ShelfPlace;

/// Memory of ours that one peer writes, or reads: a region of its own, or a part of one that serves many peers.
pub(crate) struct VerbsArea {
    region: Arc<MemoryRegion>,
    start: u64,
    len_bytes: u64,
    /// Gives the part back to its shelf at the end.
    _place: Option<ShelfPlace>,
}

impl VerbsArea {
    /// Zeroed memory of its own for WRITEs of the peer.
    pub(crate) fn written(domain: &ProtectionDomain, len_bytes: u64) -> Result<VerbsArea, ResourceError> {
        VerbsArea::alone(domain, len_bytes, Access::REMOTE_WRITE)
    }

    /// Zeroed memory of its own for READs of the peer.
    pub(crate) fn read(domain: &ProtectionDomain, len_bytes: u64) -> Result<VerbsArea, ResourceError> {
        VerbsArea::alone(domain, len_bytes, Access::REMOTE_READ)
    }

    fn alone(domain: &ProtectionDomain, len_bytes: u64, access: Access) -> Result<VerbsArea, ResourceError> {
        Ok(VerbsArea::whole(&Arc::new(domain.expose(len_bytes as usize, access)?)))
    }

    /// All of a region, which others may have, too.
    pub(crate) fn whole(region: &Arc<MemoryRegion>) -> VerbsArea {
        VerbsArea { region: Arc::clone(region), start: 0, len_bytes: region.len_bytes(), _place: None }
    }

    /// A part of a region, which lies inside.
    pub(crate) fn part(region: &Arc<MemoryRegion>, start: u64, len_bytes: u64, place: ShelfPlace) -> VerbsArea {
        VerbsArea { region: Arc::clone(region), start, len_bytes, _place: Some(place) }
    }

    /// The key to this area alone.
    ///
    /// # Errors
    /// If the area does not lie inside of its region.
    pub(crate) fn key(&self) -> Result<RemoteKey, KeyError> {
        self.region.key().at(self.start, self.len_bytes)
    }

    /// The place in the region; `None` for bytes beyond the area.
    #[inline]
    fn place(&self, at: u64, len_bytes: u64) -> Option<u64> {
        let fits = at <= self.len_bytes && len_bytes <= self.len_bytes - at;
        fits.then(|| self.start + at)
    }
}

/// The sessions check all places. One that is out of range all the same reads as zeros, and a WRITE there is nothing.
impl PeerArea for VerbsArea {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn load(&self, at: u64) -> u64 {
        self.place(at, 8).and_then(|place| self.region.load(place).ok()).unwrap_or_default()
    }

    fn store(&self, at: u64, word: u64) {
        if let Some(place) = self.place(at, 8) {
            let _ = self.region.store(place, word);
        }
    }

    fn copy_out(&self, at: u64, out: &mut [u8]) {
        let copied = self.place(at, out.len() as u64).map(|place| self.region.copy_out(place, out));
        if !matches!(copied, Some(Ok(()))) {
            out.fill(0);
        }
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        if let Some(place) = self.place(at, bytes.len() as u64) {
            let _ = self.region.copy_in(place, bytes);
        }
    }
}
