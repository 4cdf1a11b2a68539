//! Asynchronous events.

use std::os::fd::AsRawFd;

use device::{AsyncEvent, QpEvent};

use crate::boundary::Errno;
use crate::object::count_acknowledged;
use crate::verbs::context::ContextOwn;
use crate::verbs::cq_object::CqObject;
use crate::verbs::qp_object::QpObject;
use crate::verbs::srq_object::SrqObject;
use crate::verbs::wait::{self, EventAttempt};
use abi::*;

/// `ibv_get_async_event(3)`: blocks unless the descriptor is set not to.
///
/// # Safety
/// An open context, and an event to write.
pub(crate) unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    wait::until(|| {
        // SAFETY: the contract of `ibv_get_async_event`: an open context, and an event to write.
        let (own, event) = unsafe { (ContextOwn::of(context)?, event.as_mut().ok_or(Errno::INVAL)?) };
        while let Some(event_of_device) = own.device.next_event() {
            if let Some(told) = tell(own, event_of_device) {
                *event = told;
                return Ok(EventAttempt::Done);
            }
        }
        Ok(EventAttempt::WaitAt(own.device.event_fd().as_raw_fd()))
    })
}

/// The event as C's structure, counted as fetched; `None` if its object is gone.
fn tell(own: &ContextOwn, event_of_device: AsyncEvent) -> Option<ibv_async_event> {
    let targets = own.targets.lock();
    let mut told = ibv_async_event::zeroed();
    match event_of_device {
        AsyncEvent::Qp { qpn, event } => {
            let qp = targets.qps.get(&qpn)?.0;
            // SAFETY: an object exists while the table of event targets knows it; its lock is held.
            unsafe { QpObject::whatever_handle(qp) }.ok()?.unacked.fetched();
            told.element.qp = qp;
            told.event_type = match event {
                QpEvent::Fatal => IBV_EVENT_QP_FATAL,
                QpEvent::RequestError => IBV_EVENT_QP_REQ_ERR,
                QpEvent::AccessError => IBV_EVENT_QP_ACCESS_ERR,
                QpEvent::CommunicationEstablished => IBV_EVENT_COMM_EST,
                QpEvent::SendQueueDrained => IBV_EVENT_SQ_DRAINED,
                QpEvent::LastWqeReached => IBV_EVENT_QP_LAST_WQE_REACHED,
            };
        }
        AsyncEvent::CqError { cookie, .. } => {
            let cq = targets.cqs.get(&cookie)?.0;
            // SAFETY: an object exists while the table of event targets knows it; its lock is held.
            unsafe { CqObject::whatever_handle(cq) }.ok()?.unacked.fetched();
            told.element.cq = cq;
            told.event_type = IBV_EVENT_CQ_ERR;
        }
        AsyncEvent::SrqLimitReached(id) => {
            let srq = targets.srqs.get(&id)?.0;
            // SAFETY: an object exists while the table of event targets knows it; its lock is held.
            unsafe { SrqObject::whatever_handle(srq) }.ok()?.unacked.fetched();
            told.element.srq = srq;
            told.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
        }
        other => {
            told.element.port_num = 1;
            told.event_type = match other {
                AsyncEvent::PortActive => IBV_EVENT_PORT_ACTIVE,
                AsyncEvent::PortError => IBV_EVENT_PORT_ERR,
                AsyncEvent::GidChange => IBV_EVENT_GID_CHANGE,
                _ => IBV_EVENT_DEVICE_FATAL,
            };
        }
    }
    Some(told)
}

/// `ibv_ack_async_event(3)`.
///
/// # Safety
/// An event that was fetched and not yet acknowledged.
pub(crate) unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: the contract of `ibv_ack_async_event`: an event that was fetched and not yet acknowledged; the event's
    // object still lives.
    unsafe {
        let Some(event) = event.as_ref() else { return };
        let (cq, qp, srq) = (event.element.cq, event.element.qp, event.element.srq);
        let acknowledged = match event.event_type {
            IBV_EVENT_CQ_ERR => {
                CqObject::whatever_handle(cq).map(|own| (&own.unacked, &raw mut (*cq).async_events_completed))
            }
            IBV_EVENT_QP_FATAL..=IBV_EVENT_PATH_MIG_ERR | IBV_EVENT_QP_LAST_WQE_REACHED => {
                QpObject::whatever_handle(qp).map(|own| (&own.unacked, &raw mut (*qp).events_completed))
            }
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
                SrqObject::whatever_handle(srq).map(|own| (&own.unacked, &raw mut (*srq).events_completed))
            }
            _ => return,
        };
        if let Ok((unacked, completed)) = acknowledged {
            count_acknowledged(completed, 1);
            unacked.acknowledged();
        }
    }
}
