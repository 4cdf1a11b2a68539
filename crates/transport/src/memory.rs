//! The memory interface of a queue pair: copies under a key, nothing else.
//!
//! The transport never sees a pointer. It names memory as the verbs do, by key,
//! address and length, and the implementation checks every access: key alive,
//! protection domain, rights, bounds.

use wire::RKey;

use crate::call::{RemoteCallError, ReplyBytes};

bitflags::bitflags! {
    /// Rights of a memory region or window, or of a queue pair's peer.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Access: u32 {
        /// The owner's queue pairs may write (receive buffers, results of READs and atomics).
        const LOCAL_WRITE = 1;
        /// Peers may WRITE.
        const REMOTE_WRITE = 1 << 1;
        /// Peers may READ.
        const REMOTE_READ = 1 << 2;
        /// Peers may do atomics.
        const REMOTE_ATOMIC = 1 << 3;
        /// Memory windows may be bound to the region.
        const MW_BIND = 1 << 4;
        /// Addresses of the region start at zero.
        const ZERO_BASED = 1 << 5;
        /// Pages may come and go while the region is registered; an access where there are none is
        /// refused.
        const ON_DEMAND = 1 << 6;
        /// Advice to use huge pages: accepted.
        const HUGETLB = 1 << 7;
        /// Peers may FLUSH for global visibility.
        const FLUSH_GLOBAL = 1 << 8;
        /// Peers may FLUSH for persistence. Ordinary memory has none.
        const FLUSH_PERSISTENT = 1 << 9;
        /// Peers may make calls ([`SendOp::Call`](crate::SendOp::Call)). No flag of libibverbs.
        const REMOTE_CALL = 1 << 30;
        /// Writes may become visible in any order: accepted, but writes keep their order.
        const RELAXED_ORDERING = 1 << 20;
    }
}

/// The number of a protection domain, unique within a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct PdId(pub u32);

/// A local key: the right of the owner's queue pairs to use a memory region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LKey(pub u32);

/// One entry of a scatter/gather list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sge {
    /// The first byte, as the region numbers its addresses.
    pub addr: u64,
    /// The number of bytes. Here zero means none (the verbs layer maps its own rule to this).
    pub len_bytes: u32,
    /// The key of the region that holds them.
    pub lkey: LKey,
}

/// The responder's queue pair, on whose behalf a peer accesses memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accessor {
    /// The protection domain of the queue pair.
    pub pd: PdId,
    /// The queue pair: a type 2 window serves one only.
    pub qpn: wire::Qpn,
}

/// An atomic operation on eight bytes (IB specification 9.4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Stores `swap` if the value equals `compare`.
    CompareSwap {
        /// The expected value.
        compare: u64,
        /// The value to store.
        swap: u64,
    },
    /// Adds, wrapping.
    FetchAdd {
        /// The number to add.
        add: u64,
    },
}

/// Parameters of a memory window's bind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BindMw {
    /// A key of the window: its high 24 bits name the window.
    pub window: RKey,
    /// Its low byte is that of the window's key from now on. The rest is not the consumer's to choose.
    pub new_rkey: RKey,
    /// The region it opens.
    pub region: LKey,
    /// First address within the region. With `Access::ZERO_BASED` peers count from zero.
    pub addr: u64,
    /// Length in bytes; zero for a type 1 window unbinds it.
    pub len_bytes: u64,
    /// Remote rights of the window.
    pub access: Access,
}

impl BindMw {
    /// The key that the window has from now on.
    pub fn bound_rkey(&self) -> RKey {
        RKey(self.window.0 & !0xff | self.new_rkey.0 & 0xff)
    }
}

/// The reason for which an access was refused. A peer sees the first three as a remote access error, the owner as a
/// local protection error.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum MemoryError {
    /// The key names nothing alive.
    #[error("the key names no live region or window")]
    BadKey,
    /// The region or window belongs to another protection domain (or queue pair).
    #[error("the key belongs to another protection domain or queue pair")]
    WrongDomain,
    /// The region or window does not grant this.
    #[error("the key does not grant this access")]
    NoPermission,
    /// The range leaves the region, or wraps around.
    #[error("the range leaves the region")]
    OutOfBounds,
    /// On-demand memory: the range is not all mapped at the moment, or its pages do not allow it.
    #[error("the range is not all mapped, or its pages do not allow the access")]
    Unmapped,
    /// The address of an atomic or of an object is not a multiple of eight.
    #[error("an atomic operation or an object needs an address that is a multiple of 8")]
    Misaligned,
}

impl MemoryError {
    /// From the number of the variant; anything else is a bad key.
    pub(crate) fn from_number(number: u16) -> MemoryError {
        use MemoryError::*;
        const ALL: [MemoryError; 6] = [BadKey, WrongDomain, NoPermission, OutOfBounds, Unmapped, Misaligned];
        ALL.into_iter().find(|error| *error as u16 == number).unwrap_or(BadKey)
    }
}

/// Memory under keys. Every method checks everything, every time: a region may
/// be deregistered between two packets of one message.
pub trait Memory {
    /// Copies `out.len()` bytes from the buffers of the list `sgl`, from `offset` on. The list must hold that many
    /// bytes after `offset` (`OutOfBounds` if not).
    fn gather(&self, pd: PdId, sgl: &[Sge], offset: u64, out: &mut [u8]) -> Result<(), MemoryError>;

    /// Copies `data` to the buffers of the list `sgl`, from `offset` on. Needs `LOCAL_WRITE`. Bytes become visible
    /// in ascending order as far as an aligned last word is concerned: a reader that sees the last byte sees all
    /// before it.
    fn scatter(&self, pd: PdId, sgl: &[Sge], offset: u64, data: &[u8]) -> Result<(), MemoryError>;

    /// Checks that the whole list may be used, `write` for the receiving side.
    fn check_local(&self, pd: PdId, sgl: &[Sge], write: bool) -> Result<(), MemoryError>;

    /// Checks that `who` may do `access` on the whole range. Zero lengths are
    /// not asked (C9-88: they need no valid key).
    fn check_remote(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        len_bytes: u64,
        access: Access,
    ) -> Result<(), MemoryError>;

    /// Writes `data` at a peer's request; same visibility as `scatter`.
    fn remote_write(&self, who: Accessor, rkey: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError>;

    /// Reads at a peer's request.
    fn remote_read(&self, who: Accessor, rkey: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError>;

    /// Reads an object at a peer's request, at one moment: its first word was the same before and after the copy, and had
    /// no bit of `lock_mask`. Returns the length of `out` then. If a writer had the object at each of a bounded number of
    /// tries, it returns 8, and the front of `out` is the word. `out` holds 8 bytes at least.
    fn remote_read_object(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        lock_mask: u64,
        out: &mut [u8],
    ) -> Result<usize, MemoryError>;

    /// Carries out a call at a peer's request, by the handler of the region: `addr` lies in it. Needs `REMOTE_CALL`.
    fn remote_call(
        &self,
        _who: Accessor,
        _rkey: RKey,
        _addr: u64,
        _request: &[u8],
        _reply: &mut ReplyBytes,
    ) -> Result<(), RemoteCallError> {
        Err(RemoteCallError::Refused(MemoryError::NoPermission))
    }

    /// Does an atomic at a peer's request and returns the value before it. Atomic
    /// towards every other atomic and towards the processor's own.
    fn remote_atomic(&self, who: Accessor, rkey: RKey, addr: u64, op: AtomicOp) -> Result<u64, MemoryError>;

    /// Writes eight bytes at a peer's request, in one store. Needs `REMOTE_WRITE`.
    fn remote_atomic_write(&self, who: Accessor, rkey: RKey, addr: u64, value: [u8; 8]) -> Result<(), MemoryError>;

    /// Makes earlier writes visible to all observers. `range` (address and length) is checked; `None` means the
    /// whole region or window. `access` names the flush right that is needed.
    fn remote_flush(
        &self,
        who: Accessor,
        rkey: RKey,
        range: Option<(u64, u64)>,
        access: Access,
    ) -> Result<(), MemoryError>;

    /// A local invalidate. Only type 2 windows (and regions that allow it) can be invalidated so, and only by the queue
    /// pair that has bound them. One that is not bound is invalid already: that is not an error.
    fn invalidate(&self, who: Accessor, rkey: RKey) -> Result<(), MemoryError>;

    /// A peer's SEND with invalidate: the same, but a window that is not bound is an error.
    fn remote_invalidate(&self, who: Accessor, rkey: RKey) -> Result<(), MemoryError>;

    /// Binds a window, on behalf of a bind work request.
    fn bind(&self, who: Accessor, bind: &BindMw) -> Result<(), MemoryError>;
}
