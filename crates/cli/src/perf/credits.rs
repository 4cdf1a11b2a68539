//! Credits for streams of messages between queue pairs that are connected by address.
//!
//! iWARP ends a connection whose message finds no receive buffer (RFC 5041: invalid MSN, no buffer available); RoCE
//! repeats the message. So the receiver counts the buffers that it has posted again, and writes their number into the
//! sender's memory: one word for each queue pair, at the end of the region.

use device::{Payload, SendFlags, SendOp, SendWr};

use super::endpoint::{EndpointInfo, Endpoints};
use super::spec::{Test, TestMode};
use super::work::half_bytes;
use crate::error::Error;

const WORD_BYTES: usize = 8;

/// The bytes of a test's words.
pub(super) fn word_bytes(test: &Test) -> usize {
    if test.op.uses_recv() && test.mode == TestMode::Stream { test.qps as usize * WORD_BYTES } else { 0 }
}

fn offset(test: &Test, index: usize) -> usize {
    2 * half_bytes(test) + index * WORD_BYTES
}

/// The receivers' side of the queue pairs of one thread.
pub(super) struct CreditGiver<'a> {
    endpoints: &'a Endpoints,
    peers: &'a [EndpointInfo],
    test: &'a Test,
    /// Buffers that were posted again, by queue pair.
    given: Vec<u64>,
}

impl<'a> CreditGiver<'a> {
    pub(super) fn new(endpoints: &'a Endpoints, peers: &'a [EndpointInfo], test: &'a Test) -> CreditGiver<'a> {
        CreditGiver { endpoints, peers, test, given: vec![0; endpoints.qps.len()] }
    }

    /// Tells the sender of `count` buffers that were posted again.
    pub(super) fn give(&mut self, index: usize, count: u32) -> Result<(), Error> {
        let mut done = Vec::new();
        self.endpoints.send_cq.poll(&mut done, 64)?;
        done.into_iter().try_for_each(|completion| self.endpoints.check(completion).map(drop))?;
        self.given[index] += u64::from(count);
        let offset = offset(self.test, index);
        self.endpoints.write_region(offset, &self.given[index].to_ne_bytes());
        let word = SendWr {
            wr_id: 0,
            op: SendOp::Write(self.peers[index].remote(offset as u64)),
            flags: SendFlags::SIGNALED,
            payload: Payload::Sgl(self.endpoints.sgl(offset as u64, WORD_BYTES as u32)),
            datagram: None,
            xrc_srq: None,
        };
        Ok(self.endpoints.qps[index].post_send([word])?)
    }
}

/// The senders' side.
pub(super) struct CreditTaker<'a> {
    endpoints: &'a Endpoints,
    test: &'a Test,
    /// Messages that were posted, by queue pair.
    sent: Vec<u64>,
}

impl<'a> CreditTaker<'a> {
    pub(super) fn new(endpoints: &'a Endpoints, test: &'a Test) -> CreditTaker<'a> {
        CreditTaker { endpoints, test, sent: vec![0; endpoints.qps.len()] }
    }

    /// Takes credits for `count` messages, if there are as many. The receiver has posted twice the depth at first.
    pub(super) fn take(&mut self, index: usize, count: u32) -> bool {
        let mut word = [0; WORD_BYTES];
        self.endpoints.read_region(offset(self.test, index), &mut word);
        let posted = u64::from(self.test.depth) * 2 + u64::from_ne_bytes(word);
        let sent = &mut self.sent[index];
        let is_allowed = *sent + u64::from(count) <= posted;
        *sent += if is_allowed { u64::from(count) } else { 0 };
        is_allowed
    }
}
