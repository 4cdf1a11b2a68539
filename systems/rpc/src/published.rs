//! Bytes that peers READ out of registered memory: their owner's processor copies nothing.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use longarm::{Access, MemoryRegion, ProtectionDomain, RemoteKey};
use parking_lot::Mutex;

/// Bytes that never change, for replies and requests that are sent without a copy: the peer READs them.
///
/// The first session that sends them registers their memory; sessions of another server or client copy. A clone names the
/// same bytes.
///
/// **Every peer that was sent a part may READ that part again for as long as the memory lives**, since it knows the key.
/// With one part it learns the key to all. So publish only what each of those peers may see.
///
/// ```
/// use longarm_rpc::{Method, Methods, Published, Status};
///
/// let pages = Published::new(vec![7; 1 << 20]);
/// let blobs = Methods::new("blob.Store").published(Method::new("/blob.Store/Get"), move |request| {
///     let page = request.first().copied().unwrap_or_default() as usize;
///     pages.slice(page * 4096..(page + 1) * 4096).ok_or_else(|| Status::invalid_argument("no such page"))
/// });
/// # drop(blobs);
/// ```
#[derive(Clone)]
pub struct Published {
    memory: Arc<Mutex<PublishedMemory>>,
    len_bytes: usize,
}

enum PublishedMemory {
    Unused(Vec<u8>),
    Registered(ProtectionDomain, Arc<MemoryRegion>),
}

/// A part of [`Published`] bytes.
#[derive(Clone, Debug)]
pub struct PublishedSlice {
    whole: Published,
    range: Range<usize>,
}

impl Published {
    /// Takes the bytes over.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Published {
        let bytes = bytes.into();
        let len_bytes = bytes.len();
        Published { memory: Arc::new(Mutex::new(PublishedMemory::Unused(bytes))), len_bytes }
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.len_bytes
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// A part of them; `None` if it is not inside.
    pub fn slice(&self, range: Range<usize>) -> Option<PublishedSlice> {
        let fits = range.start <= range.end && range.end <= self.len_bytes;
        fits.then(|| PublishedSlice { whole: self.clone(), range })
    }

    /// The registered memory, if it is that domain's. The first domain that asks gets it.
    fn region_in(&self, domain: &ProtectionDomain) -> Option<Arc<MemoryRegion>> {
        let mut memory = self.memory.lock();
        if let PublishedMemory::Unused(bytes) = &*memory {
            // Memory of the library's own can be mapped by peers on this host, the vector's cannot.
            let region = domain.expose(bytes.len(), Access::REMOTE_READ).ok()?;
            region.copy_in(0, bytes).ok()?;
            *memory = PublishedMemory::Registered(domain.clone(), Arc::new(region));
        }
        match &*memory {
            PublishedMemory::Registered(owner, region) if owner == domain => Some(Arc::clone(region)),
            _ => None,
        }
    }
}

impl PublishedSlice {
    /// Its number of bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Appends a copy of the bytes.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match &*self.whole.memory.lock() {
            PublishedMemory::Unused(bytes) => out.extend_from_slice(&bytes[self.range.clone()]),
            PublishedMemory::Registered(_, region) => {
                let start = out.len();
                out.resize(start + self.len(), 0);
                let copied = region.copy_out(self.range.start as u64, &mut out[start..]);
                debug_assert!(copied.is_ok(), "the slice lies inside");
            }
        }
    }

    /// The memory that keeps the bytes, and the key to them, for peers of that domain.
    pub(crate) fn key_in(&self, domain: &ProtectionDomain) -> Option<(Arc<MemoryRegion>, RemoteKey)> {
        let region = self.whole.region_in(domain)?;
        let key = region.key().at(self.range.start as u64, self.len() as u64).ok()?;
        Some((region, key))
    }
}

impl From<Published> for PublishedSlice {
    fn from(whole: Published) -> PublishedSlice {
        PublishedSlice { range: 0..whole.len_bytes, whole }
    }
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Published({} bytes)", self.len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_lie_inside_and_give_their_bytes() {
        let bytes = Published::new(*b"0123456789");
        assert!(bytes.slice(4..11).is_none() && bytes.slice(11..11).is_none());
        #[expect(clippy::reversed_empty_ranges, reason = "a caller may compute one")]
        let reversed = bytes.slice(5..4);
        assert!(reversed.is_none());
        let mut out = b"x".to_vec();
        bytes.slice(4..7).unwrap().append_to(&mut out);
        assert_eq!(out, b"x456");
    }
}
