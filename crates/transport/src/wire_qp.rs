//! The queue pair whose peer is reached by packets: one of RC, UC and UD.

use wire::Packet;

use crate::attr::{QpAttr, QpState, QpType};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::Host;
use crate::network::{RecvMeta, Transmit};
use crate::qp_core::QpCore;
use crate::rc::RcQp;
use crate::time::Time;
use crate::uc::UcQp;
use crate::ud::UdQp;

#[derive(Debug)]
pub(crate) enum WireQp {
    /// Also both ends of XRC.
    Rc(Box<RcQp>),
    Uc(Box<UcQp>),
    Ud(Box<UdQp>),
}

/// Calls the same method of each service.
macro_rules! each_service {
    ($wire:expr, $service:ident => $call:expr) => {
        match $wire {
            WireQp::Rc($service) => $call,
            WireQp::Uc($service) => $call,
            WireQp::Ud($service) => $call,
        }
    };
}

impl WireQp {
    pub(crate) fn new(core: &QpCore) -> WireQp {
        match core.qp_type {
            QpType::Rc | QpType::XrcSend | QpType::XrcRecv => WireQp::Rc(Box::new(RcQp::new(&core.tuning))),
            QpType::Uc => WireQp::Uc(Box::default()),
            QpType::Ud => WireQp::Ud(Box::default()),
        }
    }

    pub(crate) fn query(&self, core: &QpCore, attr: &mut QpAttr) {
        each_service!(self, service => service.query(core, attr));
    }

    /// The queue pair has come from state `from` to its present one.
    pub(crate) fn entered(&mut self, core: &mut QpCore, from: QpState, host: &mut impl Host) {
        each_service!(self, service => service.entered(core, from, host));
    }

    /// The queue pair enters the error state. A receive WQE that is in use is flushed first.
    pub(crate) fn failed(&mut self, core: &mut QpCore, host: &mut impl Host) {
        each_service!(self, service => service.failed(core, host));
    }

    #[inline]
    pub(crate) fn handle_packet(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        meta: &RecvMeta,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        each_service!(self, service => service.handle_packet(core, packet, meta, now, host))
    }

    #[inline]
    pub(crate) fn poll_transmit(
        &mut self,
        core: &mut QpCore,
        now: Time,
        out: &mut [u8],
        host: &mut impl Host,
    ) -> Option<Transmit> {
        each_service!(self, service => service.poll_transmit(core, now, out, host))
    }

    pub(crate) fn wants_transmit(&self, core: &QpCore) -> bool {
        each_service!(self, service => service.wants_transmit(core))
    }

    /// The failure that the last call found, if it found one.
    #[inline]
    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        each_service!(self, service => service.take_failure())
    }

    #[inline]
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        match self {
            WireQp::Rc(rc) => rc.next_timeout(),
            WireQp::Ud(ud) => ud.next_timeout(),
            WireQp::Uc(_) => None,
        }
    }

    pub(crate) fn handle_timeout(&mut self, core: &mut QpCore, now: Time) {
        match self {
            WireQp::Rc(rc) => rc.handle_timeout(core, now),
            WireQp::Ud(ud) => ud.handle_timeout(now),
            WireQp::Uc(_) => {}
        }
    }
}
