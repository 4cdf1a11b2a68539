//! The parts that every queue pair has: the device's object and two work queues. Also the order in
//! which they end.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use transport::{AttrMask, QpAttr, QpCaps, QpState, QpType, Reason, RecvWr, SendWr, WriteAtOnce};
use wire::{Gid, Qpn};

use crate::completion::Completion;
use crate::cq::{CompletionQueue, CqCore};
use crate::domain::ProtectionDomain;
use crate::error::{PostError, ResourceError, WaitError};
use crate::flight::{Delivery, Failure, Loan, RequestKey, Ticket, WorkQueue};
use crate::open_device::Device;
use crate::posted::PostedRequest;
use crate::receive::{ReceiveTarget, post_recv};
use crate::remote::RemoteKey;
use crate::request::SendRequest;
use crate::srq::SharedReceiveQueue;

/// The resources that a queue pair is made of, and its sizes.
#[derive(Clone, Debug)]
pub(crate) struct QpResources {
    pub(crate) domain: ProtectionDomain,
    pub(crate) device: Device,
    pub(crate) send_cq: CompletionQueue,
    pub(crate) recv_cq: CompletionQueue,
    pub(crate) srq: Option<SharedReceiveQueue>,
    pub(crate) caps: QpCaps,
}

/// A queue pair of any service. Dropping it gives back all buffers that it has borrowed.
#[derive(Debug)]
pub(crate) struct QueuePairCore {
    pub(crate) domain: ProtectionDomain,
    device: Device,
    qp: provider::Qp,
    send: Arc<WorkQueue>,
    recv: Arc<WorkQueue>,
    send_cq: Arc<CqCore>,
    recv_cq: Arc<CqCore>,
    srq: Option<SharedReceiveQueue>,
}

/// Requests that the device has not taken, with why.
#[derive(Debug)]
pub(crate) struct RejectedRequests {
    pub(crate) error: PostError,
    /// The requests before the refused one, which were posted.
    pub(crate) posted: Vec<RequestKey>,
    /// The loans of the others, in order.
    pub(crate) loans: Vec<Loan>,
}

impl QueuePairCore {
    pub(crate) fn new(resources: &QpResources, qp_type: QpType) -> Result<QueuePairCore, ResourceError> {
        let QpResources { domain, device, send_cq, recv_cq, srq, caps } = resources;
        // The completion queues are of the domain's device, and tell work queues apart by its numbers.
        let number = || domain.device().next_queue();
        let send = WorkQueue::new(number(), caps.max_send_wr, true);
        let recv = match srq {
            Some(srq) => Arc::clone(srq.queue()),
            None => Arc::new(WorkQueue::new(number(), caps.max_recv_wr, false)),
        };
        let (send_cq, recv_cq) = (send_cq.core(), recv_cq.core());
        let qp = device.handle().create_qp(&provider::QpSpec {
            qp_type,
            pd: domain.device_pd(),
            send_cq: send_cq.handle(),
            recv_cq: recv_cq.handle(),
            srq: srq.as_ref().map(SharedReceiveQueue::handle),
            caps: *caps,
            signal_all: false,
        })?;
        let core = QueuePairCore {
            qp,
            send: Arc::new(send),
            recv,
            send_cq: Arc::clone(send_cq),
            recv_cq: Arc::clone(recv_cq),
            srq: srq.clone(),
            device: device.clone(),
            domain: domain.clone(),
        };
        core.attach()?;
        Ok(core)
    }

    /// Attaches the work queues. If this fails, dropping the queue pair undoes the part that succeeded.
    fn attach(&self) -> Result<(), ResourceError> {
        self.send.belongs_to(self.qp.clone());
        if self.srq.is_none() {
            self.recv.belongs_to(self.qp.clone());
        }
        self.send_cq.attach(&self.send)?;
        if self.srq.is_none() {
            self.recv_cq.attach(&self.recv)?;
        }
        Ok(())
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.qp.qpn()
    }

    pub(crate) fn handle(&self) -> &provider::Qp {
        &self.qp
    }

    pub(crate) fn modify(&self, attr: &QpAttr, mask: AttrMask) -> Result<(), device::Error> {
        self.qp.modify(attr, mask)
    }

    pub(crate) fn failure(&self) -> Option<Reason> {
        self.qp.failure()
    }

    /// Moves to the error state: outstanding requests are flushed.
    pub(crate) fn abort(&self) -> Result<(), device::Error> {
        let attr = QpAttr { state: QpState::Error, ..QpAttr::default() };
        self.modify(&attr, AttrMask::STATE)
    }

    pub(crate) fn source_for(&self, peer: Gid, preferred: Gid) -> Option<Gid> {
        self.device.source_for(peer, preferred)
    }

    /// The device that it is on.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// True if its receives come from a shared receive queue.
    pub(crate) fn has_srq(&self) -> bool {
        self.srq.is_some()
    }

    pub(crate) fn send_posted(&self, key: RequestKey) -> PostedRequest {
        PostedRequest { queue: Arc::clone(&self.send), cq: Arc::clone(&self.send_cq), key }
    }

    /// Waits for the request behind a ticket.
    pub(crate) fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<Completion, WaitError> {
        self.posted(ticket.0).ok_or(WaitError::UnknownTicket)?.wait_for_completion(timeout)
    }

    /// The request behind a ticket, if it was posted to one of our queues.
    fn posted(&self, key: RequestKey) -> Option<PostedRequest> {
        let pairs = [(&self.send, &self.send_cq), (&self.recv, &self.recv_cq)];
        let (queue, cq) = pairs.into_iter().find(|(queue, _)| queue.id() == key.queue())?;
        Some(PostedRequest { queue: Arc::clone(queue), cq: Arc::clone(cq), key })
    }

    /// Executes a WRITE at once; false if that is not possible.
    pub(crate) fn write_now(&self, bytes: &[u8], to: &RemoteKey) -> bool {
        self.qp.write_at_once(bytes, to.remote_addr()) == WriteAtOnce::Done
    }

    /// Executes a READ at once. Returns the bytes that it took; `None` if that is not possible.
    pub(crate) fn read_now(&self, out: &mut [u8], from: &RemoteKey, lock_mask: Option<u64>) -> Option<u32> {
        self.qp.read_at_once(out, from.remote_addr(), lock_mask)
    }

    /// Posts one send request. It is moved as seldom as can be: most programs post this way.
    pub(crate) fn post_send(&self, mut request: SendRequest, delivery: Delivery) -> Result<RequestKey, Failure> {
        if let Err(error) = request.check(self.domain.id()) {
            return Err(Failure::not_posted(error, request.into_loan()));
        }
        let _order = self.send.posting();
        let (mut wr, entry) = request.into_parts(delivery);
        let (key, signaled) = self
            .send
            .enter_single(entry)
            .map_err(|entry| Failure::not_posted(PostError::QueueFull { depth: self.send.depth() }, entry.loan))?;
        wr.wr_id = key.wr_id();
        wr.flags.set(transport::SendFlags::SIGNALED, signaled);
        match self.qp.post_send([wr]) {
            Ok(()) => Ok(key),
            Err(refused) => Err(Failure::not_posted(PostError::of_device(refused.error), self.send.withdraw(key))),
        }
    }

    /// Posts send requests as one doorbell, in order; the first that is refused ends it.
    pub(crate) fn post_sends(
        &self,
        mut requests: SmallVec<[(SendRequest, Delivery); 1]>,
    ) -> Result<SmallVec<[RequestKey; 1]>, RejectedRequests> {
        let domain = self.domain.id();
        let checked = requests.iter_mut().try_for_each(|(request, _)| request.check(domain));
        if let Err(error) = checked {
            return Err(RejectedRequests::all(error, requests.into_iter().map(|(r, _)| r.into_loan())));
        }
        let _order = self.send.posting();
        let parts = requests.into_iter().map(|(request, delivery)| request.into_parts(delivery));
        let (mut wrs, mut entries): (SmallVec<[SendWr; 1]>, SmallVec<_>) = parts.unzip();
        let Some(entered) = self.send.enter(&mut entries) else {
            let full = PostError::QueueFull { depth: self.send.depth() };
            return Err(RejectedRequests::all(full, entries.into_iter().map(|entry| entry.loan)));
        };
        for (wr, (key, signaled)) in wrs.iter_mut().zip(&entered) {
            wr.wr_id = key.wr_id();
            wr.flags.set(transport::SendFlags::SIGNALED, *signaled);
        }
        let keys = entered.into_iter().map(|(key, _)| key).collect();
        match self.qp.post_send(wrs) {
            Ok(()) => Ok(keys),
            Err(failure) => Err(withdraw(&self.send, &keys, failure)),
        }
    }
}

impl ReceiveTarget for QueuePairCore {
    fn post_recv(&self, loan: Loan, delivery: Delivery) -> Result<PostedRequest, Failure> {
        if self.srq.is_some() {
            return Err(Failure::not_posted(PostError::SharedReceive, loan));
        }
        let post = |wr: RecvWr| self.qp.post_recv([wr]);
        let key = post_recv(&self.recv, self.domain.id(), loan, delivery, post)?;
        Ok(PostedRequest { queue: Arc::clone(&self.recv), cq: Arc::clone(&self.recv_cq), key })
    }
}

impl Drop for QueuePairCore {
    /// Flushes, so that requests complete with an error. Then destroys the device's queue pair, after which the
    /// device touches none of its memory. Then takes back the remaining loans.
    fn drop(&mut self) {
        // The device refuses this for a queue pair that never left Reset.
        let _ = self.abort();
        let _ = self.send_cq.progress_awake();
        let _ = self.recv_cq.progress_awake();
        if self.qp.destroy().is_err() {
            // This process is a fork of the owner. The memory must not be given back.
            return;
        }
        let qpn = self.qp.qpn();
        self.send_cq.announce(|effects| self.send.reclaim(qpn, effects));
        self.send_cq.detach(&self.send);
        if self.srq.is_none() {
            self.recv_cq.announce(|effects| self.recv.reclaim(qpn, effects));
            self.recv_cq.detach(&self.recv);
        }
    }
}

impl RejectedRequests {
    fn all(error: PostError, loans: impl Iterator<Item = Loan>) -> RejectedRequests {
        RejectedRequests { error, posted: Vec::new(), loans: loans.collect() }
    }
}

fn withdraw(queue: &WorkQueue, keys: &[RequestKey], failure: device::PostFailure) -> RejectedRequests {
    let (posted, refused) = keys.split_at(failure.index.min(keys.len()));
    RejectedRequests {
        error: PostError::of_device(failure.error),
        posted: posted.to_vec(),
        loans: refused.iter().map(|key| queue.withdraw(*key)).collect(),
    }
}
