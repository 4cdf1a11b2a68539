//! From a peer's key to its bytes: the checks that its own engine would make.
//!
//! Everything read from the export was copied out before it is looked at, and what
//! it says of places is checked against what we have mapped.

use local::{Known, Object, Peer, SharedQp};
use memory::SharedKey;
use transport::near::path::Stop;
use transport::{Access, MemoryError, RemoteAddr};
use wire::Qpn;

use super::links::NearLink;

/// Where bytes of the peer are.
pub(super) enum Place<'a> {
    /// Mapped here, from this offset on.
    Mapped(Object<'a>, usize),
    /// At this address of the peer, to be reached through the kernel.
    Far(u64),
}

/// The records that were used last: most requests of a queue pair use the same again, and then only their
/// numbers are looked at. What they allow is checked for each request.
#[derive(Default)]
pub(super) struct Recent {
    qp: Option<Known<SharedQp>>,
    key: Option<Known<SharedKey>>,
}

impl Recent {
    /// The peer's queue pair, if it is ready for ours and allows `access`.
    #[inline]
    pub(super) fn queue_pair(&mut self, peer: &Peer, theirs: Qpn, ours: Qpn, access: Access) -> Result<SharedQp, Stop> {
        if !self.qp.is_some_and(|known| peer.has_qp(&known)) {
            self.qp = peer.qp(theirs);
        }
        let qp = self.qp.map(|known| known.value).filter(|qp| qp.peer == ours).ok_or(Stop::NotReady)?;
        match qp.access.contains(access) {
            true => Ok(qp),
            false => Err(Stop::Remote(MemoryError::NoPermission)),
        }
    }

    /// The key, if the queue pair may do `access` on the range through it.
    #[inline]
    pub(super) fn key(
        &mut self,
        peer: &Peer,
        qp: &SharedQp,
        remote: RemoteAddr,
        len_bytes: u64,
        access: Access,
    ) -> Result<&SharedKey, Stop> {
        if !self.key.is_some_and(|known| known.value.rkey == remote.rkey && peer.has_key(&known)) {
            self.key = peer.key(remote.rkey);
        }
        let key = &self.key.as_ref().ok_or(Stop::Remote(MemoryError::BadKey))?.value;
        if key.pd != qp.pd || key.only.is_some_and(|only| only != qp.qpn) {
            return Err(Stop::Remote(MemoryError::WrongDomain));
        }
        if !key.access.contains(access) {
            return Err(Stop::Remote(MemoryError::NoPermission));
        }
        match remote.addr.checked_sub(key.base) {
            Some(offset) if offset <= key.len_bytes && len_bytes <= key.len_bytes - offset => Ok(key),
            _ => Err(Stop::Remote(MemoryError::OutOfBounds)),
        }
    }
}

/// Where a checked range of a key lies.
#[inline]
pub(super) fn place<'a>(link: &'a NearLink, key: &SharedKey, addr: u64, len_bytes: u64) -> Result<Place<'a>, Stop> {
    let peer = link.peer();
    let from = addr - key.base;
    if let Some(place) = key.place {
        let inside = from >= place.skip_front
            && from.checked_add(len_bytes).is_some_and(|end| end <= key.len_bytes.saturating_sub(place.skip_back));
        let object = if inside { link.object(place.object) } else { None };
        if let Some(object) = object {
            let at = place.offset.checked_add(from - place.skip_front).and_then(|at| usize::try_from(at).ok());
            if let Some(at) = at.filter(|at| object.span().part(*at, len_bytes as usize).is_some()) {
                return Ok(Place::Mapped(object, at));
            }
        }
    }
    match peer.reaches_far() {
        true => Ok(Place::Far(key.start.wrapping_add(from))),
        false => Err(Stop::Elsewhere),
    }
}
