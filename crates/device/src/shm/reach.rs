//! From a peer's key to its bytes, with the checks that the peer's own engine would make.
//!
//! Everything that is read from the export is copied out before it is used. Its offsets and lengths are checked against
//! the memory that is mapped here.

use memory::SharedKey;
use shm::{FoundRecord, Object, Peer, SharedQp};
use transport::shm::path::ShmError;
use transport::{Access, MemoryError, RemoteAddr};
use wire::Qpn;

use crate::shm::link::ShmLink;

/// Memory of the peer.
pub(crate) enum PeerMemory<'a> {
    /// Mapped here, from this offset on.
    Mapped(&'a Object, usize),
    /// At this address of the peer, to be reached through the kernel.
    Far(u64),
}

/// The queue pair, key and memory object of the last access. Most requests of a queue pair use the same again, and then
/// only the numbers of the records are compared. The rights are checked for each request.
#[derive(Default)]
pub(crate) struct RecentAccess {
    qp: Option<FoundRecord<SharedQp>>,
    key: Option<FoundRecord<SharedKey>>,
    /// The object that the last mapped key lies in, by number.
    object: Option<(u32, Object)>,
}

impl RecentAccess {
    /// The peer's queue pair, if it is ready for ours and allows `access`.
    #[inline]
    pub(crate) fn queue_pair(
        &mut self,
        peer: &Peer,
        theirs: Qpn,
        ours: Qpn,
        access: Access,
    ) -> Result<SharedQp, ShmError> {
        if !self.qp.is_some_and(|known| peer.has_qp(&known)) {
            self.qp = peer.qp(theirs);
        }
        let qp = self.qp.map(|known| known.value).filter(|qp| qp.peer == ours).ok_or(ShmError::NotReady)?;
        match qp.access.contains(access) {
            true => Ok(qp),
            false => Err(ShmError::Remote(MemoryError::NoPermission)),
        }
    }

    /// A range of the peer's memory, if the queue pair may do `access` on it by the key.
    #[inline]
    pub(crate) fn range(
        &mut self,
        link: &ShmLink,
        qp: &SharedQp,
        remote: RemoteAddr,
        len_bytes: u64,
        access: Access,
    ) -> Result<PeerMemory<'_>, ShmError> {
        let peer = link.peer();
        if !self.key.is_some_and(|known| known.value.rkey == remote.rkey && peer.has_key(&known)) {
            self.key = peer.key(remote.rkey);
        }
        let key = &self.key.as_ref().ok_or(ShmError::Remote(MemoryError::BadKey))?.value;
        let from = check(key, qp, remote.addr, len_bytes, access)?;
        if let Some((number, at)) = locate(key, from, len_bytes)
            && let Some(object) = hold(&mut self.object, link, number)
            && object.span().part(at, len_bytes as usize).is_some()
        {
            return Ok(PeerMemory::Mapped(object, at));
        }
        match peer.reaches_far() {
            true => Ok(PeerMemory::Far(key.start.wrapping_add(from))),
            false => Err(ShmError::NeedsFrame),
        }
    }

    /// Unmaps the object.
    pub(crate) fn forget_object(&mut self) {
        self.object = None;
    }
}

/// The offset of the range in the key's memory, if the queue pair may do `access` on it.
#[inline]
fn check(key: &SharedKey, qp: &SharedQp, addr: u64, len_bytes: u64, access: Access) -> Result<u64, ShmError> {
    if key.pd != qp.pd || key.only.is_some_and(|only| only != qp.qpn) {
        return Err(ShmError::Remote(MemoryError::WrongDomain));
    }
    if !key.access.contains(access) {
        return Err(ShmError::Remote(MemoryError::NoPermission));
    }
    match addr.checked_sub(key.base) {
        Some(from) if from <= key.len_bytes && len_bytes <= key.len_bytes - from => Ok(from),
        _ => Err(ShmError::Remote(MemoryError::OutOfBounds)),
    }
}

/// The number of the object that all of a checked range lies in, and the offset.
#[inline]
fn locate(key: &SharedKey, from: u64, len_bytes: u64) -> Option<(u32, usize)> {
    let place = key.place?;
    let inside = from.checked_add(len_bytes).is_some_and(|end| end <= key.len_bytes.saturating_sub(place.skip_back));
    let at = place.offset.checked_add(from.checked_sub(place.skip_front)?)?;
    Some((place.object, usize::try_from(at).ok().filter(|_| inside)?))
}

/// The object of that number. If it is not the one in `held`, it takes its place.
#[inline]
fn hold<'a>(held: &'a mut Option<(u32, Object)>, link: &ShmLink, number: u32) -> Option<&'a Object> {
    if held.as_ref().is_none_or(|(held, _)| *held != number) {
        *held = link.object(number).map(|object| (number, object));
    }
    held.as_ref().map(|(_, object)| object)
}
