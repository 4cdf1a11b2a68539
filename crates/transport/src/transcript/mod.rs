//! What would have been on the wire: the packets of a connection that has none.
//!
//! For captures. Whoever records tells a [`Transcript`] of every frame that was sent or has arrived, and of every
//! request that was carried out without one, and gets the packets in which the wire would have said the same:
//!
//! ```text
//!  frame sent ──────┐              ┌─ requests of ours ── answers of the peer ─┐
//!  frame arrived ───┼─ Transcript ─┤                                           ├─► packets, BTH to pad
//!  DirectRequest, DirectOutcome ───┘              └─ requests of the peer ── answers of ours ─┘
//! ```
//!
//! Messages are cut by the path MTU, PSNs follow each other, a request that is sent again has the PSNs that it had.
//! What nobody but the peer can know is missing: what its processor does in our memory takes no PSN here, and the
//! numbers begin at the queue pair's starting PSN when the recording begins.
//!
//! Pure: memory is asked for through closures, addresses and the ICRC are others' matter.

mod connection;
mod direct;
mod packet_writer;
mod payload;
mod psn_tracker;
mod request_stream;
mod segmenter;
mod single_request;

use crate::shm::frame::{FrameHead, FrameKind};
use crate::shm::path::{DirectOutcome, DirectRequest};
use crate::shm::remote_op::REMOTE_OP_BYTES;
pub use connection::CapturedConnection;
use packet_writer::PacketRole;
pub use payload::PayloadSource;
use request_stream::RequestStream;

/// Bytes at the front of a frame's body that a transcript looks at, at most.
pub const FRONT_BYTES: usize = REMOTE_OP_BYTES;

/// Whether a packet would have left or come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketDirection {
    /// From the peer to us.
    Received,
    /// From us to the peer.
    Sent,
}

/// Takes a packet, BTH to pad without ICRC, and maybe a comment for who reads the capture.
pub type PacketSink<'a> = dyn FnMut(PacketDirection, &[u8], Option<&'static str>) + 'a;

/// Where a connection is, as far as it was watched.
#[derive(Debug)]
pub struct Transcript {
    ends: CapturedConnection,
    /// Our requests and the peer's answers; from the first request on.
    ours: Option<RequestStream>,
    /// The peer's requests and our answers.
    theirs: Option<RequestStream>,
}

impl Transcript {
    /// One that begins now.
    pub fn new(ends: CapturedConnection) -> Transcript {
        Transcript { ends, ours: None, theirs: None }
    }

    /// The queue pair was modified.
    pub fn set_connection(&mut self, ends: CapturedConnection) {
        if self.ends.sq_psn != ends.sq_psn {
            self.ours = None;
        }
        self.ends = ends;
    }

    /// A frame has left. `head` is as it left, `front` the beginning of its body, and `bytes` what it
    /// brings of a message.
    pub fn sent(&mut self, head: &FrameHead, front: &[u8], bytes: PayloadSource<'_>, sink: &mut PacketSink<'_>) {
        use PacketDirection::{Received, Sent};
        let Transcript { ends, ours, theirs } = self;
        if let Some(theirs) = theirs {
            theirs.acknowledge(acknowledged(head), &mut |_, packet, comment| sink(Sent, packet, comment));
        }
        match head.kind {
            // The direct that it belongs to was told of.
            FrameKind::Notice | FrameKind::Refused | FrameKind::Datagram => {}
            kind if kind.is_request() => {
                ours_of(ours, ends).request(head, front, bytes, &mut |role, packet, comment| {
                    sink(if role == PacketRole::Request { Sent } else { Received }, packet, comment);
                });
            }
            _ => theirs_of(theirs, ends)
                .answer(head, front, bytes, &mut |_, packet, comment| sink(Sent, packet, comment)),
        }
    }

    /// A frame has arrived.
    pub fn arrived(&mut self, head: &FrameHead, front: &[u8], bytes: PayloadSource<'_>, sink: &mut PacketSink<'_>) {
        use PacketDirection::{Received, Sent};
        let Transcript { ends, ours, theirs } = self;
        if let Some(ours) = ours {
            ours.acknowledge(acknowledged(head), &mut |_, packet, comment| sink(Received, packet, comment));
        }
        match head.kind {
            FrameKind::Datagram => {}
            kind if kind.is_request() => {
                theirs_of(theirs, ends).request(head, front, bytes, &mut |role, packet, comment| {
                    sink(if role == PacketRole::Request { Received } else { Sent }, packet, comment);
                });
            }
            _ => ours_of(ours, ends)
                .answer(head, front, bytes, &mut |_, packet, comment| sink(Received, packet, comment)),
        }
    }

    /// A request of ours has ended that needed no frame. `read` copies bytes of its payload, also of what
    /// a READ has brought.
    pub fn done(
        &mut self,
        direct: &DirectRequest<'_>,
        outcome: DirectOutcome,
        read: &mut dyn FnMut(u32, &mut [u8]) -> bool,
        sink: &mut PacketSink<'_>,
    ) {
        ours_of(&mut self.ours, &self.ends).direct(direct, outcome, read, &mut |role, packet, comment| {
            sink(
                if role == PacketRole::Request { PacketDirection::Sent } else { PacketDirection::Received },
                packet,
                comment,
            );
        });
    }
}

/// What a frame acknowledges; an answer that brings something does so by itself for its request.
fn acknowledged(head: &FrameHead) -> u32 {
    if matches!(head.kind, FrameKind::Data | FrameKind::Result) { head.request } else { head.ack }
}

fn ours_of<'a>(ours: &'a mut Option<RequestStream>, ends: &CapturedConnection) -> &'a mut RequestStream {
    ours.get_or_insert_with(|| RequestStream::new(ends, ends.local, ends.remote, ends.sq_psn))
}

fn theirs_of<'a>(theirs: &'a mut Option<RequestStream>, ends: &CapturedConnection) -> &'a mut RequestStream {
    theirs.get_or_insert_with(|| RequestStream::new(ends, ends.remote, ends.local, ends.rq_psn))
}
