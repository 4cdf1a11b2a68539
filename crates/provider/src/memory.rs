//! Protection domains, regions and windows.

use std::sync::Arc;

use device::{Error, MwType};
use memory::{Piece, Region};
use transport::{Access, LKey};
use wire::RKey;

/// A protection domain.
#[derive(Clone, Debug)]
pub enum Pd {
    /// Of a device of Longarm.
    Longarm(device::Pd),
    /// Of a device of the system.
    Verbs(verbs::Pd),
}

impl Pd {
    /// Registers all of a region that the caller allocated.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn register_region(&self, region: &Arc<Region>, access: Access) -> Result<Mr, Error> {
        Ok(match self {
            Pd::Longarm(pd) => Mr::Longarm(pd.register_region(region, access)?),
            Pd::Verbs(pd) => Mr::Verbs(pd.register_region(region, access)?),
        })
    }

    /// Allocates `len_bytes` of zeroed memory and registers it. The memory lives as long as the `Mr`.
    ///
    /// # Errors
    /// If the device refuses, or the system has no memory.
    pub fn allocate(&self, len_bytes: usize, access: Access) -> Result<Mr, Error> {
        self.register_region(&Arc::new(Region::allocate(len_bytes as u64)?), access)
    }

    /// Allocates memory as plain bytes for the caller alone. No peer reaches it; work requests reach it by the `Mr`.
    ///
    /// # Errors
    /// If the device refuses, or the system has no memory.
    pub fn allocate_private(&self, len_bytes: usize) -> Result<(Piece, Mr), Error> {
        self.register_private(Piece::allocate(len_bytes as u64)?)
    }

    /// Registers a piece for its holder alone, as [`allocate_private`](Pd::allocate_private) does.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn register_private(&self, piece: Piece) -> Result<(Piece, Mr), Error> {
        match self {
            Pd::Longarm(pd) => pd.register_private(piece).map(|(piece, mr)| (piece, Mr::Longarm(mr))),
            Pd::Verbs(pd) => pd.register_private(piece).map(|(piece, mr)| (piece, Mr::Verbs(mr))),
        }
    }

    /// Allocates a memory window.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn alloc_mw(&self, mw_type: MwType) -> Result<Mw, Error> {
        Ok(match self {
            Pd::Longarm(pd) => Mw::Longarm(pd.alloc_mw(mw_type)?),
            Pd::Verbs(pd) => Mw::Verbs(pd.alloc_mw(mw_type)?),
        })
    }

    pub(crate) fn longarm(&self) -> Result<&device::Pd, Error> {
        match self {
            Pd::Longarm(pd) => Ok(pd),
            Pd::Verbs(_) => Err(Error::OtherDevice("protection domain")),
        }
    }

    pub(crate) fn verbs(&self) -> Result<&verbs::Pd, Error> {
        match self {
            Pd::Verbs(pd) => Ok(pd),
            Pd::Longarm(_) => Err(Error::OtherDevice("protection domain")),
        }
    }
}

/// A memory region.
#[derive(Clone, Debug)]
pub enum Mr {
    /// Of a device of Longarm.
    Longarm(device::Mr),
    /// Of a device of the system.
    Verbs(verbs::Mr),
}

impl Mr {
    /// Its local key.
    #[inline]
    pub fn lkey(&self) -> LKey {
        either!(self, mr => mr.lkey())
    }

    /// Its remote key.
    #[inline]
    pub fn rkey(&self) -> RKey {
        either!(self, mr => mr.rkey())
    }

    /// The address of its first byte, as peers number it.
    #[inline]
    pub fn addr(&self) -> u64 {
        either!(self, mr => mr.addr())
    }

    /// Its length in bytes.
    #[inline]
    pub fn len_bytes(&self) -> u64 {
        either!(self, mr => mr.len_bytes())
    }

    /// True if this is the only handle.
    pub fn is_only_handle(&self) -> bool {
        either!(self, mr => mr.is_only_handle())
    }

    /// Sets the handler of calls.
    ///
    /// # Errors
    /// If it has one, or is a device's of the system.
    pub fn serve_calls(&self, handler: Box<memory::CallHandler>) -> Result<(), Error> {
        match self {
            Mr::Longarm(mr) => mr.serve_calls(handler),
            Mr::Verbs(_) => Err(Error::Invalid("only Longarm's own device carries out calls")),
        }
    }

    /// Takes the handler away, after the end of the calls under way.
    pub fn stop_calls(&self) {
        if let Mr::Longarm(mr) = self {
            mr.stop_calls();
        }
    }

    /// Its rights.
    pub fn access(&self) -> Access {
        either!(self, mr => mr.access())
    }

    /// The memory, if this library allocated it.
    pub fn region(&self) -> Option<&Arc<Region>> {
        either!(self, mr => mr.region())
    }
}

/// A memory window.
#[derive(Clone, Debug)]
pub enum Mw {
    /// Of a device of Longarm.
    Longarm(device::Mw),
    /// Of a device of the system.
    Verbs(verbs::Mw),
}

impl Mw {
    /// Its present key.
    pub fn rkey(&self) -> RKey {
        either!(self, mw => mw.rkey())
    }

    /// Its type.
    pub fn mw_type(&self) -> MwType {
        either!(self, mw => mw.mw_type())
    }
}
