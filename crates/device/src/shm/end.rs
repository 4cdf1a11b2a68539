//! Our end of a connection to a queue pair in another process: the path that the transport asks for.

mod direct;
mod frames;

use std::cell::RefCell;
use std::sync::Arc;

use memory::Registry;
use shm::{LANES, SharedQp};
use transport::shm::frame::FrameHead;
use transport::shm::path::{DirectOutcome, DirectRequest};
use transport::shm::path::{SendBody, ShmError, ShmPath};
use transport::shm::remote_op::RemoteOp;
use transport::{Access, Payload, PdId, RemoteAddr, Sge, Time};
use wire::{Qpn, RKey};

use super::arrived::FrameBody;
use super::export::Exporter;
use super::links::ShmLink;
use super::reach::Recent;
use super::record::Recorder;
use super::tally::{Direct, Tally};
use crate::clock;
use crate::objects::counters::Counters;
use crate::schedule::stalled::Shortage;

/// Our end of a connection.
pub(crate) struct End {
    link: Arc<ShmLink>,
    ours: Qpn,
    theirs: Qpn,
    lane: usize,
    /// What peers were last shown.
    shown: Option<(PdId, Access)>,
    tally: Tally,
    recent: RefCell<Recent>,
    recorder: Recorder,
}

impl End {
    pub(crate) fn new(link: Arc<ShmLink>, ours: Qpn, theirs: Qpn, counters: Counters, recorder: Recorder) -> End {
        let (lane, tally) = (usize::from(ours.index()) % LANES, Tally::new(counters));
        End { link, ours, theirs, lane, shown: None, tally, recent: RefCell::default(), recorder }
    }

    pub(crate) fn is_on(&self, link: &Arc<ShmLink>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }

    /// What it waits for if there is no room.
    pub(crate) fn shortage(&self) -> Shortage {
        Shortage::Lane(self.link.clone(), self.lane)
    }

    /// Shows the queue pair to the peer, with its domain and its remote rights, or takes it away.
    #[inline]
    pub(crate) fn show(&mut self, export: &Exporter, state: Option<(PdId, Access)>) {
        if self.shown == state {
            return;
        }
        self.shown = state;
        match state {
            Some((pd, access)) => {
                export.open_qp(&SharedQp { qpn: self.ours, peer: self.theirs, pd, access });
            }
            None => export.close_qp(self.ours),
        }
    }

    /// The queue pair was modified.
    pub(crate) fn learn(&self, qp: &transport::Qp) {
        self.recorder.learn(qp);
    }

    /// Tells of a frame that has arrived.
    pub(crate) fn record_arrived(&self, head: &FrameHead, body: &FrameBody<'_>) {
        self.recorder.arrived(head, body);
    }

    /// What was done by ourselves in the peer's memory.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Keeps no memory of the peer mapped because it was used last.
    pub(crate) fn forget_object(&self) {
        self.recent.borrow_mut().forget_object();
    }

    pub(crate) fn link(&self) -> Arc<ShmLink> {
        self.link.clone()
    }

    #[inline]
    pub(crate) fn is_link(&self, link: &ShmLink) -> bool {
        std::ptr::eq(&*self.link, link)
    }
}

impl ShmPath for End {
    type Memory = Registry;

    fn now(&self) -> Time {
        clock::now()
    }

    #[inline]
    fn send(&self, memory: &Registry, head: &FrameHead, prefix: &[u8], body: SendBody<'_>) -> Result<u32, ShmError> {
        match self.link.is_recorded() {
            false => self.send_frame(memory, head, prefix, body),
            // A copy: what a function is given a reference to cannot stay in registers.
            true => self.send_and_record(memory, &{ *head }, prefix, body),
        }
    }

    #[inline]
    fn write(&self, memory: &Registry, pd: PdId, payload: &Payload, to: RemoteAddr) -> Result<(), ShmError> {
        self.write_there(memory, pd, payload, to)?;
        self.tally.add(Direct::Write);
        Ok(())
    }

    #[inline]
    fn read(&self, memory: &Registry, pd: PdId, sgl: &[Sge], len_bytes: u32, from: RemoteAddr) -> Result<(), ShmError> {
        self.read_there(memory, pd, sgl, len_bytes, from)?;
        self.tally.add(Direct::Read);
        Ok(())
    }

    #[inline]
    fn remote_op(&self, memory: &Registry, remote_op: &RemoteOp, rkey: RKey) -> Result<u64, ShmError> {
        let before = self.remote_op_there(memory, remote_op, rkey)?;
        let is_write = matches!(remote_op, RemoteOp::Write(..));
        self.tally.add(if is_write { Direct::Write } else { Direct::Atomic });
        Ok(before)
    }

    #[inline]
    fn is_recorded(&self) -> bool {
        self.link.is_recorded()
    }

    #[inline]
    fn record(&self, memory: &Registry, request: &DirectRequest<'_>, outcome: DirectOutcome) {
        if self.link.is_recorded() {
            self.recorder.done(memory, request, outcome);
        }
    }
}
