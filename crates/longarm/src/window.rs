//! Memory windows: narrower rights to part of a region, given and taken back quickly
//! (IB specification 10.6.7).

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use transport::{Access, BindMw, SendOp};
use wire::RKey;

use crate::domain::DomainId;
use crate::error::ResourceError;
use crate::region::{MemoryRegion, RegionCore};
use crate::remote::RemoteKey;

pub use memory::MwType as WindowType;

/// A window onto part of a region, not bound: nobody can use it yet.
///
/// Life of a window: [`MemoryRegion::window`] makes it, [`QueuePair::bind`](crate::QueuePair::bind)
/// turns it into a [`BoundWindow`] with a key, [`QueuePair::unbind`](crate::QueuePair::unbind)
/// revokes that key and brings it back. Each bind gives it another key.
pub struct Window<'region> {
    core: WindowCore,
    region: PhantomData<&'region RegionCore>,
}

/// A window that peers can use. Dropping it revokes its key immediately.
///
/// ```no_run
/// # use std::time::Duration;
/// # fn example(qp: longarm::QueuePair, region: longarm::MemoryRegion) -> Result<(), Box<dyn std::error::Error>> {
/// # let timeout = Duration::from_secs(5);
/// let window = region.window(0..4096, longarm::Access::REMOTE_WRITE)?;
/// let window = qp.bind(window).wait(timeout)?;
/// qp.send_inline(&window.key().to_bytes()).wait(timeout)?;      // the peer may write now
/// let window = qp.unbind(window).wait(timeout)?;                // and no longer
/// # Ok(())
/// # }
/// ```
pub struct BoundWindow<'region> {
    core: WindowCore,
    region: PhantomData<&'region RegionCore>,
}

/// A window without the borrow of its region, as requests carry it. It keeps the region alive itself.
#[derive(Debug)]
pub(crate) struct WindowCore {
    region: Arc<RegionCore>,
    mw: provider::Mw,
    rkey: RKey,
    offset: u64,
    len_bytes: u64,
    access: Access,
}

impl MemoryRegion {
    /// A window onto part of the region, with rights of its own that can be taken back
    /// without touching the region's. It opens nothing until it is bound
    /// ([`QueuePair::bind`](crate::QueuePair::bind)), and then serves that queue pair's
    /// peer only (type 2).
    pub fn window(&self, range: Range<u64>, access: Access) -> Result<Window<'_>, ResourceError> {
        self.window_of_type(WindowType::Two, range, access)
    }

    /// As [`window`](MemoryRegion::window), for windows that are kept beside their region: the window keeps the memory
    /// registered, also when the [`MemoryRegion`] is dropped. Dropping the bound window still revokes its key at once.
    ///
    /// # Errors
    /// If the range is empty or not inside, or the device has no more windows.
    pub fn owned_window(&self, range: Range<u64>, access: Access) -> Result<Window<'static>, ResourceError> {
        let window = self.window(range, access)?;
        Ok(Window::from_core(window.into_core()))
    }

    /// As [`window`](MemoryRegion::window), of a type to choose: type 1 serves the peers of
    /// every queue pair of the protection domain.
    pub fn window_of_type(
        &self,
        kind: WindowType,
        range: Range<u64>,
        access: Access,
    ) -> Result<Window<'_>, ResourceError> {
        Window::allocate(self.core(), kind, range, access)
    }
}

impl<'region> Window<'region> {
    pub(crate) fn allocate(
        region: &'region Arc<RegionCore>,
        kind: WindowType,
        range: Range<u64>,
        access: Access,
    ) -> Result<Window<'region>, ResourceError> {
        let len_bytes = range.end.saturating_sub(range.start);
        if len_bytes == 0 || region.part(range.start, len_bytes).is_err() {
            return Err(ResourceError::Invalid {
                what: "the end of a window",
                is: range.end,
                rule: "a window covers at least one byte and lies within its region",
            });
        }
        let mw = region.domain.device_pd().alloc_mw(kind)?;
        Ok(Window::from_core(WindowCore {
            region: Arc::clone(region),
            rkey: mw.rkey(),
            mw,
            offset: range.start,
            len_bytes,
            access,
        }))
    }

    /// Its type.
    pub fn window_type(&self) -> WindowType {
        self.core.mw.mw_type()
    }

    pub(crate) fn from_core(core: WindowCore) -> Window<'region> {
        Window { core, region: PhantomData }
    }

    pub(crate) fn into_core(self) -> WindowCore {
        self.core
    }
}

impl<'region> BoundWindow<'region> {
    /// The key to the window, for the peer.
    pub fn key(&self) -> RemoteKey {
        RemoteKey::from_parts(self.core.base(), self.core.rkey, self.core.len_bytes)
    }

    pub(crate) fn from_core(core: WindowCore) -> BoundWindow<'region> {
        BoundWindow { core, region: PhantomData }
    }

    pub(crate) fn into_core(self) -> WindowCore {
        self.core
    }
}

impl WindowCore {
    pub(crate) fn domain_id(&self) -> DomainId {
        self.region.domain_id()
    }

    /// The request that binds it under its next key, which it has from then on.
    pub(crate) fn bind(&mut self) -> SendOp {
        let present = self.rkey;
        self.rkey = next_key(present);
        SendOp::Bind(BindMw {
            window: present,
            new_rkey: self.rkey,
            region: self.region.mr.lkey(),
            addr: self.region.mr.addr() + self.offset,
            len_bytes: self.len_bytes,
            access: self.access,
        })
    }

    /// The request that kills its key: type 2 is invalidated, type 1 bound to nothing.
    pub(crate) fn unbind(&mut self) -> SendOp {
        if self.mw.mw_type() == WindowType::Two {
            return SendOp::LocalInvalidate(self.rkey);
        }
        match self.bind() {
            SendOp::Bind(bind) => SendOp::Bind(BindMw { len_bytes: 0, ..bind }),
            other => other,
        }
    }

    /// The first address as peers number it.
    fn base(&self) -> u64 {
        match self.access.contains(Access::ZERO_BASED) {
            true => 0,
            false => self.region.mr.addr() + self.offset,
        }
    }
}

/// The high 24 bits name the window; the consumer counts the low byte.
fn next_key(key: RKey) -> RKey {
    RKey(key.0 & !0xff | key.0.wrapping_add(1) & 0xff)
}

impl fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({} bytes, unbound)", self.core.len_bytes)
    }
}

impl fmt::Debug for BoundWindow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundWindow({:?})", self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_low_byte_of_a_window_key_counts_up() {
        assert_eq!(next_key(RKey(0x1234_56ff)), RKey(0x1234_5600));
        assert_eq!(next_key(RKey(0x1234_5600)), RKey(0x1234_5601));
    }
}
