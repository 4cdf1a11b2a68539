//! The shared-memory path to a peer: the interface that the device implements for a queue pair.

use wire::RKey;

use super::frame::FrameHead;
use super::remote_op::RemoteOp;
use crate::memory::{Accessor, MemoryError, PdId, Sge};
use crate::time::Time;
use crate::wr::{Payload, RemoteAddr, SendOp};

/// The reason for which a frame was not sent or an operation not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShmError {
    /// The lane is full: try again when it has room.
    LaneFull,
    /// The peer's process is gone.
    PeerDead,
    /// The peer has no queue pair that is ready for us (yet).
    NotReady,
    /// Our own memory refused.
    Local(MemoryError),
    /// The peer's memory refused.
    Remote(MemoryError),
    /// This process cannot reach that memory: a frame has to ask the peer for it.
    NeedsFrame,
}

/// The bytes of a frame after its head.
#[derive(Clone, Copy, Debug)]
pub enum SendBody<'a> {
    /// Bytes at hand.
    Bytes(&'a [u8]),
    /// The rest of a list of ours from `offset` on.
    List {
        /// The domain of its keys.
        pd: PdId,
        /// The list.
        sgl: &'a [Sge],
        /// Bytes of it that were sent before.
        offset: u32,
        /// Bytes that are left.
        left_bytes: u32,
        /// The frame may name the bytes (lend them) instead of carrying them.
        may_lend: bool,
    },
    /// Memory under a key of ours, for the response to a READ.
    Remote {
        /// The queue pair that reads.
        who: Accessor,
        /// The key.
        rkey: RKey,
        /// The first byte.
        addr: u64,
        /// Bytes that are left.
        left_bytes: u32,
    },
}

/// A request that this processor executes in the peer's memory, without a frame.
#[derive(Clone, Copy, Debug)]
pub struct DirectRequest<'a> {
    /// The operation.
    pub op: &'a SendOp,
    /// Its bytes, or the buffers of its result.
    pub payload: &'a Payload,
    /// The domain of the keys in `payload`.
    pub pd: PdId,
    /// Length of the message in bytes.
    pub len_bytes: u32,
    /// The peer is asked for an event.
    pub solicited: bool,
}

/// The outcome of a [`DirectRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectOutcome {
    /// Executed.
    Done,
    /// Executed; this was the value in the peer's memory before.
    Value(u64),
    /// Executed, and a notice frame with this request number asks the peer for a receive WQE.
    NoticeSent(u32),
    /// The peer's memory refused the access.
    Refused(MemoryError),
    /// The peer has no queue pair that is ready, or its process is gone.
    NoAnswer,
}

/// The path to the peer: a lane for frames, and direct access to its memory as far as this process reaches it.
///
/// Each access passes the peer's own checks: its queue pair must be ready, connected to this one and allow the
/// access, and so must the key. An access of several bytes becomes visible in ascending order as far as the last
/// word is concerned.
pub trait ShmPath {
    /// The memory that our own lists name.
    type Memory: ?Sized;

    /// The time, for the rare case that something has to wait.
    fn now(&self) -> Time;

    /// Sends a frame: the head, `prefix`, and as much of the body as fits one frame. The last part of a
    /// message is marked by `LAST`, lent bytes by `LENT`. Returns the bytes of the body that it stands for.
    ///
    /// # Errors
    /// [`ShmError::LaneFull`], [`ShmError::PeerDead`], [`ShmError::Local`]; [`ShmError::Remote`] for a body of that kind.
    fn send(&self, memory: &Self::Memory, head: &FrameHead, prefix: &[u8], body: SendBody<'_>)
    -> Result<u32, ShmError>;

    /// Executes a WRITE. One of no bytes needs no key, but a queue pair that allows it.
    ///
    /// # Errors
    /// See [`ShmError`]; nothing was written then, unless the peer took its memory away meanwhile.
    fn write(&self, memory: &Self::Memory, pd: PdId, payload: &Payload, to: RemoteAddr) -> Result<(), ShmError>;

    /// Executes a WRITE of bytes that no key of ours names.
    ///
    /// # Errors
    /// See [`ShmError`]; [`ShmError::NeedsFrame`] wherever it is not one copy to mapped memory.
    fn write_bytes(&self, _bytes: &[u8], _to: RemoteAddr) -> Result<(), ShmError> {
        Err(ShmError::NeedsFrame)
    }

    /// Executes a READ into bytes that no key of ours names; with a lock mask that of an object at one moment. Returns the bytes
    /// that it took, for an object as [`read_object`](ShmPath::read_object).
    ///
    /// # Errors
    /// See [`ShmError`]; [`ShmError::NeedsFrame`] wherever it is not one copy from mapped memory.
    fn read_bytes(
        &self,
        _memory: &Self::Memory,
        _out: &mut [u8],
        _from: RemoteAddr,
        _lock_mask: Option<u64>,
    ) -> Result<u32, ShmError> {
        Err(ShmError::NeedsFrame)
    }

    /// Executes a READ into a list of ours. One of no bytes needs no key, but a queue pair that allows it.
    ///
    /// # Errors
    /// See [`ShmError`].
    fn read(
        &self,
        memory: &Self::Memory,
        pd: PdId,
        sgl: &[Sge],
        len_bytes: u32,
        from: RemoteAddr,
    ) -> Result<(), ShmError>;

    /// Executes a READ of an object at one moment into a list of ours. Returns the length of the result: as
    /// [`Memory::remote_read_object`](crate::Memory::remote_read_object) does.
    ///
    /// # Errors
    /// See [`ShmError`].
    fn read_object(
        &self,
        memory: &Self::Memory,
        pd: PdId,
        sgl: &[Sge],
        len_bytes: u32,
        from: RemoteAddr,
        lock_mask: u64,
    ) -> Result<u32, ShmError>;

    /// Executes an atomic, ATOMIC WRITE or FLUSH. Returns the old value, if it is an atomic.
    ///
    /// # Errors
    /// See [`ShmError`].
    fn remote_op(&self, memory: &Self::Memory, remote_op: &RemoteOp, rkey: RKey) -> Result<u64, ShmError>;

    /// Whether a capture records this connection (see [`transcript`](crate::transcript)).
    #[inline]
    fn is_recorded(&self) -> bool {
        false
    }

    /// A request has ended that no frame shows, or not all of it. Does nothing without a capture.
    #[inline]
    fn record(&self, _memory: &Self::Memory, _request: &DirectRequest<'_>, _outcome: DirectOutcome) {}
}

/// The body of a frame that has arrived.
pub trait ReceivedBody {
    /// The memory that our own lists name.
    type Memory: ?Sized;

    /// Bytes of the message that this frame stands for, `prefix` bytes at its front left out.
    fn len_bytes(&self, prefix: usize) -> u32;

    /// Copies bytes at the front of the body; zeros where it is shorter.
    fn front(&self, out: &mut [u8]);

    /// Copies everything after `prefix` bytes to a list of ours, from `offset` on.
    ///
    /// # Errors
    /// [`ShmError::Local`], or [`ShmError::NeedsFrame`] if it is lent and we cannot reach it.
    fn scatter(&self, memory: &Self::Memory, prefix: usize, pd: PdId, sgl: &[Sge], offset: u64)
    -> Result<(), ShmError>;

    /// Copies everything after `prefix` bytes to memory under a key of ours, on behalf of the peer.
    ///
    /// # Errors
    /// [`ShmError::Local`] if the key does not open it.
    fn write(&self, memory: &Self::Memory, prefix: usize, who: Accessor, to: RemoteAddr) -> Result<(), ShmError>;
}

/// The path of a device without shared memory: there is none.
#[derive(Debug)]
pub enum NoShmPath<M: ?Sized> {
    /// Cannot be made.
    #[doc(hidden)]
    Never(core::convert::Infallible, core::marker::PhantomData<M>),
}

impl<M: ?Sized> ShmPath for NoShmPath<M> {
    type Memory = M;

    fn now(&self) -> Time {
        match *self {
            NoShmPath::Never(never, _) => match never {},
        }
    }

    fn send(&self, _: &M, _: &FrameHead, _: &[u8], _: SendBody<'_>) -> Result<u32, ShmError> {
        Err(ShmError::PeerDead)
    }

    fn write(&self, _: &M, _: PdId, _: &Payload, _: RemoteAddr) -> Result<(), ShmError> {
        Err(ShmError::PeerDead)
    }

    fn read(&self, _: &M, _: PdId, _: &[Sge], _: u32, _: RemoteAddr) -> Result<(), ShmError> {
        Err(ShmError::PeerDead)
    }

    fn read_object(&self, _: &M, _: PdId, _: &[Sge], _: u32, _: RemoteAddr, _: u64) -> Result<u32, ShmError> {
        Err(ShmError::PeerDead)
    }

    fn remote_op(&self, _: &M, _: &RemoteOp, _: RKey) -> Result<u64, ShmError> {
        Err(ShmError::PeerDead)
    }
}
