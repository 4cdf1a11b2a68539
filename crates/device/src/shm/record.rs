//! Tells a capture of the frames to and from a peer on this host.
//!
//! Without a capture it costs one load of a flag. With one, the bytes are copied out of their memory before anything is
//! computed from them. No access to the peer's memory is under way meanwhile, so a peer that deregisters memory does not
//! wait for a file.

use std::cell::RefCell;
use std::sync::Arc;

use memory::Registry;
use transport::shm::frame::FrameHead;
use transport::shm::path::{DirectOutcome, DirectRequest, ReceivedBody, SendBody};
use transport::transcript::{CapturedConnection, FRONT_BYTES, PayloadSource, Transcript};
use transport::{AddressVector, Memory, Payload, Qp};

use crate::objects::capture::{PacketCapture, RecordedFlow, UnsentPackets};
use crate::objects::counters::EngineCounters;
use crate::shm::frame::FrameBody;

/// Records for one queue pair, with its lock held.
pub(crate) struct FrameRecorder {
    capture: Arc<PacketCapture>,
    counters: EngineCounters,
    /// In memory of its own, so that the fields of the fast path are close together.
    state: RefCell<Option<Box<RecorderState>>>,
}

/// The values that all packets share, and the transcript of the present capture with its number.
struct RecorderState {
    connection: CapturedConnection,
    flow: RecordedFlow,
    transcript: Option<(u32, Transcript)>,
}

impl FrameRecorder {
    pub(crate) fn new(capture: Arc<PacketCapture>, counters: EngineCounters) -> FrameRecorder {
        FrameRecorder { capture, counters, state: RefCell::default() }
    }

    /// Notes that the queue pair was modified.
    pub(crate) fn learn(&self, qp: &Qp) {
        let (connection, attr) = (CapturedConnection::of(qp), qp.query());
        let AddressVector { flow_label, .. } = attr.address;
        let (local, remote) = (qp.qpn(), attr.dest_qpn);
        let entropy = wire::source_port(flow_label, local, remote);
        let flow = RecordedFlow { address: attr.address, entropy, local, remote };
        let mut state = self.state.borrow_mut();
        let mut transcript = state.take().and_then(|state| state.transcript);
        if let Some((_, transcript)) = &mut transcript {
            transcript.set_connection(connection);
        }
        *state = Some(Box::new(RecorderState { connection, flow, transcript }));
    }

    /// Tells of a frame that has left and stands for `taken` bytes of its body.
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
            transcript
                .sent(head, prefix, bytes, &mut |direction, packet, comment| unsent.add(direction, packet, comment));
        });
    }

    /// Tells of a frame that has arrived.
    #[cold]
    pub(crate) fn arrived(&self, head: &FrameHead, body: &FrameBody<'_>) {
        let mut front = [0; FRONT_BYTES];
        body.front(&mut front);
        let prefix = head.kind.prefix_bytes();
        let mut read = |at: u32, out: &mut [u8]| body.copy_out(prefix, at, out);
        let bytes = PayloadSource { len_bytes: body.len_bytes(prefix), read: &mut read };
        self.write(|transcript, unsent| {
            transcript
                .arrived(head, &front, bytes, &mut |direction, packet, comment| unsent.add(direction, packet, comment));
        });
    }

    /// Tells of a request that has ended without a frame.
    #[cold]
    pub(crate) fn done(&self, memory: &Registry, request: &DirectRequest<'_>, outcome: DirectOutcome) {
        let mut read = |at: u32, out: &mut [u8]| match request.payload {
            Payload::Inline(bytes) => copy(bytes, at, out),
            Payload::Sgl(sgl) => memory.gather(request.pd, sgl, at.into(), out).is_ok(),
            Payload::Call(_) => false,
        };
        self.write(|transcript, unsent| {
            transcript.done(request, outcome, &mut read, &mut |direction, packet, comment| {
                unsent.add(direction, packet, comment)
            });
        });
    }

    /// Writes the packets that `tell` makes, if a capture is on.
    fn write(&self, tell: impl FnOnce(&mut Transcript, &mut UnsentPackets<'_>)) {
        if !self.capture.is_active() {
            return;
        }
        let mut state = self.state.borrow_mut();
        let Some(RecorderState { connection, flow, transcript }) = state.as_deref_mut() else { return };
        let number = self.capture.number();
        let known = transcript.take().filter(|(of, _)| *of == number);
        let (_, transcript) = transcript.insert(known.unwrap_or_else(|| (number, Transcript::new(*connection))));
        tell(transcript, &mut UnsentPackets::new(&self.capture, &self.counters, flow));
    }
}

/// Copies bytes from an offset on. False if there are not enough.
fn copy(bytes: &[u8], at: u32, out: &mut [u8]) -> bool {
    let part = bytes.get(at as usize..).and_then(|rest| rest.get(..out.len()));
    part.map(|part| out.copy_from_slice(part)).is_some()
}
