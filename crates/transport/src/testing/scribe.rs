//! Writes down what two queue pairs on one host would have sent.

use super::memory::TestMemory;
use crate::memory::Memory;
use crate::shm::frame::Head;
use crate::shm::path::Body;
use crate::shm::transcript::{Bytes, Deed, Direction, Ends, Outcome, Transcript};
use crate::wr::Payload;

/// The packets of one end.
#[derive(Debug)]
pub(crate) struct Scribe {
    pub(crate) transcript: Transcript,
    pub(crate) packets: Vec<(Direction, Vec<u8>)>,
}

impl Scribe {
    pub(crate) fn new(ends: Ends) -> Scribe {
        Scribe { transcript: Transcript::new(ends), packets: Vec::new() }
    }

    /// A frame has left that stands for `taken` bytes of its body.
    pub(crate) fn sent(&mut self, memory: &TestMemory, head: &Head, prefix: &[u8], body: Body<'_>, taken: u32) {
        let mut read = |at: u32, out: &mut [u8]| match body {
            Body::Bytes(bytes) => {
                out.copy_from_slice(&bytes[at as usize..][..out.len()]);
                true
            }
            Body::List { pd, sgl, offset, .. } => memory.gather(pd, sgl, (offset + at).into(), out).is_ok(),
            Body::Remote { who, rkey, addr, .. } => memory.remote_read(who, rkey, addr + u64::from(at), out).is_ok(),
        };
        let Scribe { transcript, packets } = self;
        let bytes = Bytes { len_bytes: taken, read: &mut read };
        transcript.sent(head, prefix, bytes, &mut |way, packet, _| packets.push((way, packet.to_vec())));
    }

    pub(crate) fn arrived(&mut self, head: &Head, front: &[u8], bytes: Bytes<'_>) {
        let Scribe { transcript, packets } = self;
        transcript.arrived(head, front, bytes, &mut |way, packet, _| packets.push((way, packet.to_vec())));
    }

    pub(crate) fn done(&mut self, memory: &TestMemory, deed: &Deed<'_>, outcome: Outcome) {
        let mut read = |at: u32, out: &mut [u8]| match deed.payload {
            Payload::Inline(bytes) => {
                out.copy_from_slice(&bytes[at as usize..][..out.len()]);
                true
            }
            Payload::Sgl(sgl) => memory.gather(deed.pd, sgl, at.into(), out).is_ok(),
        };
        let Scribe { transcript, packets } = self;
        transcript.done(deed, outcome, &mut read, &mut |way, packet, _| packets.push((way, packet.to_vec())));
    }
}
