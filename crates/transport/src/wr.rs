//! Work requests.

use smallvec::SmallVec;
use wire::{FlushLevel, FlushPlacement, Gid, QKey, Qpn, RKey};

use crate::call::CallBuffers;
use crate::completion::CompletionOp;
use crate::memory::{AtomicOp, BindMw, Sge};

/// A scatter/gather list; two entries fit without allocation.
pub type Sgl = SmallVec<[Sge; 2]>;

bitflags::bitflags! {
    /// Flags of a send work request, with the bits of `enum ibv_send_flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct SendFlags: u32 {
        /// Start only when all READs and atomics before it have completed.
        const FENCE = 1;
        /// Report success too. Failures are always reported.
        const SIGNALED = 1 << 1;
        /// Ask for an event at the receiver (SEND and WRITE with immediate).
        const SOLICITED = 1 << 2;
        /// The request is one of Longarm's own: the queue pair sets it. No flag of libibverbs.
        const EXTENSION = 1 << 30;
        /// Another request follows soon: if this one is small, it may wait for that one's doorbell. No flag of
        /// libibverbs.
        const MORE = 1 << 31;
    }
}

impl SendFlags {
    /// Those that libibverbs does not have.
    const OWN: SendFlags = SendFlags::MORE.union(SendFlags::EXTENSION);

    /// The flags of `enum ibv_send_flags` that are known here.
    pub fn from_verbs(bits: u32) -> SendFlags {
        SendFlags::from_bits_truncate(bits) - SendFlags::OWN
    }

    /// The flags as `enum ibv_send_flags` has them.
    pub fn verbs_bits(self) -> u32 {
        (self - SendFlags::OWN).bits()
    }
}

/// The operation of a send work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendOp {
    /// Into the peer's next receive WQE.
    Send,
    /// The same with 32 bits of immediate data in host order.
    SendImm(u32),
    /// The same; it also invalidates a key of the peer.
    SendInvalidate(RKey),
    /// Into the peer's memory.
    Write(RemoteAddr),
    /// Into the peer's memory, and uses one receive WQE for the notice.
    WriteImm(RemoteAddr, u32),
    /// From the peer's memory.
    Read(RemoteAddr),
    /// From the peer's memory, at one moment: the responder copies the object, and makes sure that its first word was the
    /// same before and after, without any bit of the mask. If the word changes all the time, or keeps such a bit, the
    /// reply is the word alone. An extension: only a Longarm peer carries it out (docs/extensions.md).
    ObjectRead(RemoteAddr, u64),
    /// A call: the peer's device gives the payload's request to the handler of a region, and its reply comes back. It is
    /// executed once. An extension, too.
    Call(RemoteAddr),
    /// On eight bytes of the peer's memory; the old value comes back.
    Atomic(RemoteAddr, AtomicOp),
    /// Into eight bytes of the peer's memory in one store. It is in order with READs and atomics and counts as one
    /// of them.
    AtomicWrite(RemoteAddr),
    /// Completes when earlier writes to the peer's memory have reached the placement. It has no payload, and counts
    /// as a READ.
    Flush {
        /// The first byte; only the key counts for [`FlushLevel::MR`].
        remote: RemoteAddr,
        /// The number of bytes, for [`FlushLevel::RANGE`].
        len_bytes: u32,
        /// The placement that the writes must reach.
        placement: FlushPlacement,
        /// A range or the whole region.
        level: FlushLevel,
    },
    /// Invalidates a key of our own.
    LocalInvalidate(RKey),
    /// Binds a memory window of our own.
    Bind(BindMw),
}

impl SendOp {
    /// The operation in the completion of the request.
    #[inline]
    pub fn completion_op(&self) -> CompletionOp {
        match self {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_) => CompletionOp::Send,
            SendOp::Write(_) | SendOp::WriteImm(..) => CompletionOp::Write,
            SendOp::Read(_) => CompletionOp::Read,
            SendOp::ObjectRead(..) => CompletionOp::ObjectRead,
            SendOp::Call(_) => CompletionOp::Call,
            SendOp::Atomic(_, AtomicOp::CompareSwap { .. }) => CompletionOp::CompareSwap,
            SendOp::Atomic(_, AtomicOp::FetchAdd { .. }) => CompletionOp::FetchAdd,
            SendOp::AtomicWrite(_) => CompletionOp::AtomicWrite,
            SendOp::Flush { .. } => CompletionOp::Flush,
            SendOp::LocalInvalidate(_) => CompletionOp::LocalInvalidate,
            SendOp::Bind(_) => CompletionOp::BindMw,
        }
    }

    /// The requester executes it alone: no packets.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, SendOp::LocalInvalidate(_) | SendOp::Bind(_))
    }

    /// A SEND of any kind.
    #[inline]
    pub(crate) fn is_send(&self) -> bool {
        matches!(self, SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_))
    }

    /// READs, atomics, ATOMIC WRITE and FLUSH: each has a response of its own and counts for `max_rd_atomic`
    /// (Annex A19).
    #[inline]
    pub(crate) fn is_read_or_atomic(&self) -> bool {
        self.has_result() || matches!(self, SendOp::AtomicWrite(_) | SendOp::Flush { .. })
    }

    /// The response is written to the payload's buffers.
    #[inline]
    pub(crate) fn has_result(&self) -> bool {
        matches!(self, SendOp::Read(_) | SendOp::Atomic(..) | SendOp::ObjectRead(..) | SendOp::Call(_))
    }

    /// A request of Longarm's own, which a reply answers.
    #[inline]
    pub fn is_extension(&self) -> bool {
        matches!(self, SendOp::ObjectRead(..) | SendOp::Call(_))
    }

    /// It uses a receive WQE of the peer.
    #[inline]
    pub(crate) fn uses_recv(&self) -> bool {
        self.is_send() || matches!(self, SendOp::WriteImm(..))
    }
}

/// An address in the peer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RemoteAddr {
    /// As the peer's region numbers it.
    pub addr: u64,
    /// The peer's key.
    pub rkey: RKey,
}

/// The bytes of a send work request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Named by a list; read when the packets are built.
    Sgl(Sgl),
    /// Copied when the request was posted.
    Inline(SmallVec<[u8; 32]>),
    /// Of a call: its request, copied when it was made, and the buffers of its reply. Its length is that of the buffers.
    Call(Box<CallBuffers>),
}

impl Payload {
    /// Nothing.
    pub fn empty() -> Payload {
        Payload::Sgl(Sgl::new())
    }

    /// The buffers of a result.
    #[inline]
    pub fn result(&self) -> Option<&Sgl> {
        match self {
            Payload::Sgl(sgl) => Some(sgl),
            Payload::Inline(_) => None,
            Payload::Call(call) => Some(&call.reply),
        }
    }

    /// Length in bytes; may exceed 2^32 for a hostile list.
    #[inline]
    pub fn len_bytes(&self) -> u64 {
        match self {
            Payload::Sgl(sgl) if let [one] = &sgl[..] => one.len_bytes.into(),
            Payload::Sgl(sgl) => sgl.iter().map(|sge| u64::from(sge.len_bytes)).sum(),
            Payload::Inline(bytes) => bytes.len() as u64,
            Payload::Call(call) => call.reply.iter().map(|sge| u64::from(sge.len_bytes)).sum(),
        }
    }
}

/// The path of packets: the part of an address handle that RoCEv2 uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressVector {
    /// Our own address.
    pub source: Gid,
    /// The peer's, or a multicast group's.
    pub destination: Gid,
    /// IPv6 flow label, and the entropy of the UDP source port if not zero. 20 bits.
    pub flow_label: u32,
    /// Time to live.
    pub hop_limit: u8,
    /// IPv4 TOS or IPv6 traffic class (DSCP in the high six bits).
    pub traffic_class: u8,
}

impl AddressVector {
    /// From `source` to `destination` with everything else as usual.
    pub fn new(source: Gid, destination: Gid) -> AddressVector {
        AddressVector { source, destination, flow_label: 0, hop_limit: 64, traffic_class: 0 }
    }
}

/// The destination of a UD send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdDestination {
    /// The address handle's contents.
    pub address: AddressVector,
    /// The receiving queue pair, `Qpn::MULTICAST` for a group.
    pub remote_qpn: Qpn,
    /// The key it expects; if the high bit is set, the sender's own is used instead
    /// (IB specification 10.2.5).
    pub remote_qkey: QKey,
}

/// A send work request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendWr {
    /// The caller's own number, given back in the completion.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// Its flags.
    pub flags: SendFlags,
    /// The bytes to send, or where the result goes (READ, atomics).
    pub payload: Payload,
    /// The destination, on a UD queue pair only. It is boxed because that makes the request smaller to move.
    pub datagram: Option<Box<UdDestination>>,
    /// On an XRC initiator only: the number of the peer's shared receive queue, 24 bits.
    /// Every request has one, WRITEs and READs too: it tells the protection domain of the keys.
    pub xrc_srq: Option<u32>,
}

/// A receive work request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecvWr {
    /// The caller's own number, given back in the completion.
    pub wr_id: u64,
    /// The receive buffers.
    pub sgl: Sgl,
}

impl RecvWr {
    /// Bytes that fit.
    pub fn capacity_bytes(&self) -> u64 {
        self.sgl.iter().map(|sge| u64::from(sge.len_bytes)).sum()
    }
}
