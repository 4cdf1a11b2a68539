//! Writes down what two queue pairs on one host would have sent.

use super::memory::TestMemory;
use crate::memory::Memory;
use crate::shm::frame::FrameHead;
use crate::shm::path::SendBody;
use crate::shm::path::{DirectOutcome, DirectRequest};
use crate::transcript::{CapturedConnection, PacketDirection, PayloadSource, Transcript};
use crate::wr::Payload;

/// The packets of one end.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) transcript: Transcript,
    pub(crate) packets: Vec<(PacketDirection, Vec<u8>)>,
}

impl Recorder {
    pub(crate) fn new(ends: CapturedConnection) -> Recorder {
        Recorder { transcript: Transcript::new(ends), packets: Vec::new() }
    }

    /// A frame has left that stands for `taken` bytes of its body.
    pub(crate) fn sent(
        &mut self,
        memory: &TestMemory,
        head: &FrameHead,
        prefix: &[u8],
        body: SendBody<'_>,
        taken: u32,
    ) {
        let mut read = |at: u32, out: &mut [u8]| match body {
            SendBody::Bytes(bytes) => {
                out.copy_from_slice(&bytes[at as usize..][..out.len()]);
                true
            }
            SendBody::List { pd, sgl, offset, .. } => memory.gather(pd, sgl, (offset + at).into(), out).is_ok(),
            SendBody::Remote { who, rkey, addr, .. } => {
                memory.remote_read(who, rkey, addr + u64::from(at), out).is_ok()
            }
        };
        let Recorder { transcript, packets } = self;
        let bytes = PayloadSource { len_bytes: taken, read: &mut read };
        transcript.sent(head, prefix, bytes, &mut |way, packet, _| packets.push((way, packet.to_vec())));
    }

    pub(crate) fn arrived(&mut self, head: &FrameHead, front: &[u8], bytes: PayloadSource<'_>) {
        let Recorder { transcript, packets } = self;
        transcript.arrived(head, front, bytes, &mut |way, packet, _| packets.push((way, packet.to_vec())));
    }

    pub(crate) fn done(&mut self, memory: &TestMemory, direct: &DirectRequest<'_>, outcome: DirectOutcome) {
        let mut read = |at: u32, out: &mut [u8]| match direct.payload {
            Payload::Inline(bytes) => {
                out.copy_from_slice(&bytes[at as usize..][..out.len()]);
                true
            }
            Payload::Sgl(sgl) => memory.gather(direct.pd, sgl, at.into(), out).is_ok(),
            Payload::Call(_) => false,
        };
        let Recorder { transcript, packets } = self;
        transcript.done(direct, outcome, &mut read, &mut |way, packet, _| packets.push((way, packet.to_vec())));
    }
}
