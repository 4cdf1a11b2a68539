//! Tells a capture what went to a peer on this host and came from there.
//!
//! While nobody captures it costs one look at a flag. Otherwise the bytes are copied out of the memory that they are
//! in before anything is computed from them, and with no access to the peer's memory under way: whoever wants its
//! memory back does not wait for a file.

use std::cell::RefCell;
use std::sync::Arc;

use memory::Registry;
use transport::shm::frame::FrameHead;
use transport::shm::path::{DirectOutcome, DirectRequest};
use transport::shm::path::{ReceivedBody, SendBody};
use transport::transcript::{CapturedConnection, FRONT_BYTES, PayloadSource, Transcript};
use transport::{AddressVector, Memory, Payload, Qp};

use super::arrived::FrameBody;
use crate::objects::capture::{Capture, Unsent, Way};
use crate::objects::counters::Counters;

/// Records for one queue pair, with its lock held.
pub(crate) struct Recorder {
    capture: Arc<Capture>,
    counters: Counters,
    /// Apart, so that what is used all the time is close together.
    state: RefCell<Option<Box<State>>>,
}

/// What the packets have in common, and how far the present capture is, by its number.
struct State {
    ends: CapturedConnection,
    way: Way,
    transcript: Option<(u32, Transcript)>,
}

impl Recorder {
    pub(crate) fn new(capture: Arc<Capture>, counters: Counters) -> Recorder {
        Recorder { capture, counters, state: RefCell::default() }
    }

    /// The queue pair was modified.
    pub(crate) fn learn(&self, qp: &Qp) {
        let (ends, attr) = (CapturedConnection::of(qp), qp.query());
        let AddressVector { flow_label, .. } = attr.address;
        let (local, remote) = (qp.qpn(), attr.dest_qpn);
        let entropy = wire::source_port(flow_label, local, remote);
        let way = Way { address: attr.address, entropy, local, remote };
        let mut state = self.state.borrow_mut();
        let mut transcript = state.take().and_then(|state| state.transcript);
        if let Some((_, transcript)) = &mut transcript {
            transcript.set_connection(ends);
        }
        *state = Some(Box::new(State { ends, way, transcript }));
    }

    /// A frame has left that stands for `taken` bytes of its body.
    #[cold]
    pub(crate) fn sent(&self, memory: &Registry, head: &FrameHead, prefix: &[u8], body: SendBody<'_>, taken: u32) {
        let mut read = |at: u32, out: &mut [u8]| match body {
            SendBody::Bytes(bytes) => copy(bytes, at, out),
            SendBody::List { pd, sgl, offset, .. } => {
                memory.gather(pd, sgl, u64::from(offset) + u64::from(at), out).is_ok()
            }
            SendBody::Remote { who, rkey, addr, .. } => {
                memory.remote_read(who, rkey, addr.wrapping_add(at.into()), out).is_ok()
            }
        };
        let bytes = PayloadSource { len_bytes: taken, read: &mut read };
        self.write(|transcript, unsent| {
            transcript.sent(head, prefix, bytes, &mut |way, packet, comment| unsent.add(way, packet, comment));
        });
    }

    /// A frame has arrived.
    #[cold]
    pub(crate) fn arrived(&self, head: &FrameHead, body: &FrameBody<'_>) {
        let mut front = [0; FRONT_BYTES];
        body.front(&mut front);
        let prefix = head.kind.prefix_bytes();
        let mut read = |at: u32, out: &mut [u8]| body.copy_out(prefix, at, out);
        let bytes = PayloadSource { len_bytes: body.len_bytes(prefix), read: &mut read };
        self.write(|transcript, unsent| {
            transcript.arrived(head, &front, bytes, &mut |way, packet, comment| unsent.add(way, packet, comment));
        });
    }

    /// A request has ended that needed no frame.
    #[cold]
    pub(crate) fn done(&self, memory: &Registry, direct: &DirectRequest<'_>, outcome: DirectOutcome) {
        let mut read = |at: u32, out: &mut [u8]| match direct.payload {
            Payload::Inline(bytes) => copy(bytes, at, out),
            Payload::Sgl(sgl) => memory.gather(direct.pd, sgl, at.into(), out).is_ok(),
        };
        self.write(|transcript, unsent| {
            transcript.done(direct, outcome, &mut read, &mut |way, packet, comment| unsent.add(way, packet, comment));
        });
    }

    /// Writes what `tell` tells, if a capture is on.
    fn write(&self, tell: impl FnOnce(&mut Transcript, &mut Unsent<'_>)) {
        if !self.capture.is_active() {
            return;
        }
        let mut state = self.state.borrow_mut();
        let Some(State { ends, way, transcript }) = state.as_deref_mut() else { return };
        let number = self.capture.number();
        let known = transcript.take().filter(|(of, _)| *of == number);
        let (_, transcript) = transcript.insert(known.unwrap_or_else(|| (number, Transcript::new(*ends))));
        tell(transcript, &mut Unsent::new(&self.capture, &self.counters, way));
    }
}

/// Copies bytes that are at hand from an offset on.
fn copy(bytes: &[u8], at: u32, out: &mut [u8]) -> bool {
    let part = bytes.get(at as usize..).and_then(|rest| rest.get(..out.len()));
    part.map(|part| out.copy_from_slice(part)).is_some()
}
