//! What a queue pair asks of the way to its peer on the same host.

use wire::RKey;

use super::errand::Errand;
use super::frame::Head;
use super::transcript::{Deed, Outcome};
use crate::memory::{Accessor, MemoryError, PdId, Sge};
use crate::time::Time;
use crate::wr::{Payload, RemoteAddr};

/// Why something was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The lane is full: try again.
    Full,
    /// The peer's process is gone.
    Dead,
    /// There is no queue pair that would let us (yet).
    NotReady,
    /// Our own memory refused.
    Local(MemoryError),
    /// The peer's memory refused.
    Remote(MemoryError),
    /// We cannot reach that memory: the peer has to do it.
    Elsewhere,
}

/// The bytes of a frame after its head.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// Bytes at hand.
    Bytes(&'a [u8]),
    /// What is left of a list of ours from `offset` on.
    List {
        /// The domain of its keys.
        pd: PdId,
        /// The list.
        sgl: &'a [Sge],
        /// Bytes of it that were sent before.
        offset: u32,
        /// Bytes that are left.
        left_bytes: u32,
        /// The frame may say where the bytes are instead of bringing them.
        may_lend: bool,
    },
    /// What a key of ours opens, for the answer to a READ.
    Remote {
        /// Who reads.
        who: Accessor,
        /// The key.
        rkey: RKey,
        /// The first byte.
        addr: u64,
        /// Bytes that are left.
        left_bytes: u32,
    },
}

/// The way to the peer: a lane for frames, and its memory as far as our processor reaches it.
///
/// Every access is checked as the peer itself would: its queue pair must be ready, belong to us
/// and allow the access, and the key too. An access of several bytes becomes visible in
/// ascending order as far as the last word is concerned.
pub trait Path {
    /// The memory that our own lists name.
    type Memory: ?Sized;

    /// The time, for the rare case that something has to wait.
    fn now(&self) -> Time;

    /// Sends a frame: the head, `prefix`, and as much of the body as fits one frame. The last part of a
    /// message is marked by `LAST`, lent bytes by `LENT`. Returns the bytes of the body that it stands for.
    ///
    /// # Errors
    /// [`Stop::Full`], [`Stop::Dead`], [`Stop::Local`]; [`Stop::Remote`] for a body of that kind.
    fn send(&self, memory: &Self::Memory, head: &Head, prefix: &[u8], body: Body<'_>) -> Result<u32, Stop>;

    /// Carries out a WRITE. One of no bytes needs no key, but a queue pair that allows it.
    ///
    /// # Errors
    /// See [`Stop`]; nothing was written then, unless the peer took its memory away meanwhile.
    fn write(&self, memory: &Self::Memory, pd: PdId, payload: &Payload, to: RemoteAddr) -> Result<(), Stop>;

    /// Carries out a READ into a list of ours; one of no bytes likewise.
    ///
    /// # Errors
    /// See [`Stop`].
    fn read(&self, memory: &Self::Memory, pd: PdId, sgl: &[Sge], len_bytes: u32, from: RemoteAddr) -> Result<(), Stop>;

    /// Carries out anything else; the value before, if it is an atomic.
    ///
    /// # Errors
    /// See [`Stop`].
    fn errand(&self, memory: &Self::Memory, errand: &Errand, rkey: RKey) -> Result<u64, Stop>;

    /// Whether somebody records what would have been on the wire (see [`transcript`](super::transcript)).
    #[inline]
    fn is_recorded(&self) -> bool {
        false
    }

    /// A request has ended that no frame tells of, or not all. Does nothing if nobody records.
    #[inline]
    fn note(&self, _memory: &Self::Memory, _deed: &Deed<'_>, _outcome: Outcome) {}
}

/// The body of a frame that has arrived.
pub trait Arrived {
    /// The memory that our own lists name.
    type Memory: ?Sized;

    /// Bytes of the message that this frame stands for, `prefix` bytes at its front left out.
    fn len_bytes(&self, prefix: usize) -> u32;

    /// Copies bytes at the front of the body; zeros where it is shorter.
    fn front(&self, out: &mut [u8]);

    /// Copies everything after `prefix` bytes to a list of ours, from `offset` on.
    ///
    /// # Errors
    /// [`Stop::Local`], or [`Stop::Elsewhere`] if it is lent and we cannot reach it.
    fn scatter(&self, memory: &Self::Memory, prefix: usize, pd: PdId, sgl: &[Sge], offset: u64) -> Result<(), Stop>;

    /// Likewise to what a key of ours opens for the peer.
    ///
    /// # Errors
    /// [`Stop::Local`] if the key does not open it.
    fn write(&self, memory: &Self::Memory, prefix: usize, who: Accessor, to: RemoteAddr) -> Result<(), Stop>;
}

/// The path of a host whose queue pairs all speak packets: there is none.
#[derive(Debug)]
pub enum NoPath<M: ?Sized> {
    /// Cannot be made.
    #[doc(hidden)]
    Never(core::convert::Infallible, core::marker::PhantomData<M>),
}

impl<M: ?Sized> Path for NoPath<M> {
    type Memory = M;

    fn now(&self) -> Time {
        match *self {
            NoPath::Never(never, _) => match never {},
        }
    }

    fn send(&self, _: &M, _: &Head, _: &[u8], _: Body<'_>) -> Result<u32, Stop> {
        Err(Stop::Dead)
    }

    fn write(&self, _: &M, _: PdId, _: &Payload, _: RemoteAddr) -> Result<(), Stop> {
        Err(Stop::Dead)
    }

    fn read(&self, _: &M, _: PdId, _: &[Sge], _: u32, _: RemoteAddr) -> Result<(), Stop> {
        Err(Stop::Dead)
    }

    fn errand(&self, _: &M, _: &Errand, _: RKey) -> Result<u64, Stop> {
        Err(Stop::Dead)
    }
}
