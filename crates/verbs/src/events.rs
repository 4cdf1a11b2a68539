//! Asynchronous events of a device.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::Waker;

use abi::{
    IBV_EVENT_COMM_EST, IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_FATAL, IBV_EVENT_GID_CHANGE, IBV_EVENT_PORT_ACTIVE,
    IBV_EVENT_PORT_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED,
    IBV_EVENT_QP_REQ_ERR, IBV_EVENT_SQ_DRAINED, IBV_EVENT_SRQ_LIMIT_REACHED, ibv_async_event,
};
use device::{AsyncEvent, CqId, SrqId};
use parking_lot::Mutex;
use transport::QpEvent;
use wire::Qpn;

use crate::signal::EventSignal;

/// The number of unfetched events that are kept; later ones are lost.
const MAX_PENDING: usize = 1 << 16;

/// Events that wait for the program.
#[derive(Debug)]
pub(crate) struct PendingEvents {
    signal: EventSignal,
    pending: Mutex<VecDeque<AsyncEvent>>,
    waker: Mutex<Option<Waker>>,
}

impl PendingEvents {
    pub(crate) fn new() -> io::Result<PendingEvents> {
        Ok(PendingEvents { signal: EventSignal::new()?, pending: Mutex::default(), waker: Mutex::default() })
    }

    pub(crate) fn push(&self, event: AsyncEvent) {
        {
            let mut pending = self.pending.lock();
            if pending.len() >= MAX_PENDING {
                return;
            }
            pending.push_back(event);
            self.signal.raise();
        }
        let waker = self.waker.lock().take();
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn next(&self) -> Option<AsyncEvent> {
        let mut pending = self.pending.lock();
        let event = pending.pop_front()?;
        self.signal.lower();
        Some(event)
    }

    pub(crate) fn set_waker(&self, waker: Option<Waker>) {
        let old = std::mem::replace(&mut *self.waker.lock(), waker);
        drop(old);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }
}

/// An event in our words; `None` for kinds that no handle has. `cookie` finds that of a completion queue by its key.
///
/// # Safety
/// An event of `ibv_get_async_event(3)` that is not ACKed.
pub(crate) unsafe fn of_c(event: &ibv_async_event, cookie: impl FnOnce(u64) -> u64) -> Option<AsyncEvent> {
    // SAFETY: the kind tells the variant of the union, and its object exists until the event is ACKed. The contexts of
    // queues are numbers that this crate gave them.
    unsafe {
        let qp = |told| {
            let qpn = Qpn::new((*event.element.qp).qp_num & 0xff_ffff);
            Some(AsyncEvent::Qp { qpn, event: told })
        };
        match event.event_type {
            IBV_EVENT_CQ_ERR => {
                let key = (*event.element.cq).cq_context.addr() as u64;
                Some(AsyncEvent::CqError { cq: CqId(key as u32), cookie: cookie(key) })
            }
            IBV_EVENT_QP_FATAL => qp(QpEvent::Fatal),
            IBV_EVENT_QP_REQ_ERR => qp(QpEvent::RequestError),
            IBV_EVENT_QP_ACCESS_ERR => qp(QpEvent::AccessError),
            IBV_EVENT_COMM_EST => qp(QpEvent::CommunicationEstablished),
            IBV_EVENT_SQ_DRAINED => qp(QpEvent::SendQueueDrained),
            IBV_EVENT_QP_LAST_WQE_REACHED => qp(QpEvent::LastWqeReached),
            IBV_EVENT_SRQ_LIMIT_REACHED => {
                Some(AsyncEvent::SrqLimitReached(SrqId((*event.element.srq).srq_context.addr() as u32)))
            }
            IBV_EVENT_PORT_ACTIVE => Some(AsyncEvent::PortActive),
            IBV_EVENT_PORT_ERR => Some(AsyncEvent::PortError),
            IBV_EVENT_GID_CHANGE => Some(AsyncEvent::GidChange),
            IBV_EVENT_DEVICE_FATAL => Some(AsyncEvent::DeviceFatal),
            _ => None,
        }
    }
}
