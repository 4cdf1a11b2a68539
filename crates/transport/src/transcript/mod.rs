//! Captures of shared-memory connections: the packets that the wire would have carried.
//!
//! The device reports to a [`Transcript`] every frame that was sent or has arrived, and every request that was
//! executed without one. The transcript gives the packets of the same exchange on the wire:
//!
//! ```text
//!  frame sent ───────┐              ┌─ requests of ours ── answers of the peer ─┐
//!  frame arrived ────┼─ Transcript ─┤                                           ├─► packets, BTH to pad
//!  direct request ───┘              └─ requests of the peer ── answers of ours ─┘
//! ```
//!
//! Messages are cut by the path MTU, PSNs are consecutive, and a request that is sent again keeps its PSNs.
//!
//! Direct accesses of the peer's processor to our memory are not seen: they take no PSN here. The numbers begin at
//! the queue pair's starting PSN when the capture begins.
//!
//! Pure: closures read the memory; the device adds addresses and the ICRC.

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

/// The bytes at the front of a frame's body that a transcript needs, at most.
pub const FRONT_BYTES: usize = REMOTE_OP_BYTES;

/// Whether a packet would have left or come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketDirection {
    /// From the peer to us.
    Received,
    /// From us to the peer.
    Sent,
}

/// Takes a packet, BTH to pad without ICRC, and perhaps a comment for the reader of the capture.
pub type PacketSink<'a> = dyn FnMut(PacketDirection, &[u8], Option<&'static str>) + 'a;

/// The state of a captured connection.
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
            // The direct request that it belongs to was reported.
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

    /// A request of ours has ended that needed no frame. `read` copies bytes of its payload, also of the result of a
    /// READ.
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

/// The request number up to which a frame acknowledges. Data and results acknowledge their own request by
/// themselves.
fn acknowledged(head: &FrameHead) -> u32 {
    if matches!(head.kind, FrameKind::Data | FrameKind::Result | FrameKind::Reply) { head.request } else { head.ack }
}

fn ours_of<'a>(ours: &'a mut Option<RequestStream>, ends: &CapturedConnection) -> &'a mut RequestStream {
    ours.get_or_insert_with(|| RequestStream::new(ends, ends.local, ends.remote, ends.sq_psn))
}

fn theirs_of<'a>(theirs: &'a mut Option<RequestStream>, ends: &CapturedConnection) -> &'a mut RequestStream {
    theirs.get_or_insert_with(|| RequestStream::new(ends, ends.remote, ends.local, ends.rq_psn))
}
