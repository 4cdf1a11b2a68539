//! The one table of state transitions: for each the services it is for, the attributes it needs and
//! those it may bring besides (IB specification 11.2.5.2). The content is what `ibv_modify_qp(3)`
//! documents and Linux enforces.
//!
//! The table has the attributes that this device does not support (alternate path, path migration), too: whether a
//! step takes them is one question, whether the device can do it another.

use crate::attr::AttrMask;
use crate::attr::QpState::{self, Error, Init, Reset, Rtr, Rts, Sqd, Sqe};
use crate::attr::QpType::{self, Rc, Uc, Ud, XrcRecv, XrcSend};

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Transition {
    from: &'static [QpState],
    to: QpState,
    services: &'static [QpType],
    /// Attributes that the step needs.
    pub(crate) required: AttrMask,
    /// Attributes that it may bring.
    pub(crate) optional: AttrMask,
}

const ANY: &[QpState] = &[Reset, Init, Rtr, Rts, Sqd, Sqe, Error];

const STATE: AttrMask = AttrMask::STATE;
const CUR_STATE: AttrMask = AttrMask::CUR_STATE;
const SQD_EVENT: AttrMask = AttrMask::EN_SQD_ASYNC_NOTIFY;
const ACCESS: AttrMask = AttrMask::ACCESS_FLAGS;
const PKEY_INDEX: AttrMask = AttrMask::PKEY_INDEX;
const PORT: AttrMask = AttrMask::PORT;
const QKEY: AttrMask = AttrMask::QKEY;
const AV: AttrMask = AttrMask::AV;
const PATH_MTU: AttrMask = AttrMask::PATH_MTU;
const TIMEOUT: AttrMask = AttrMask::TIMEOUT;
const RETRY_CNT: AttrMask = AttrMask::RETRY_CNT;
const RNR_RETRY: AttrMask = AttrMask::RNR_RETRY;
const RQ_PSN: AttrMask = AttrMask::RQ_PSN;
const MAX_RD: AttrMask = AttrMask::MAX_QP_RD_ATOMIC;
const MAX_DEST_RD: AttrMask = AttrMask::MAX_DEST_RD_ATOMIC;
const ALT_PATH: AttrMask = AttrMask::ALT_PATH;
const RNR_TIMER: AttrMask = AttrMask::MIN_RNR_TIMER;
const SQ_PSN: AttrMask = AttrMask::SQ_PSN;
const MIG_STATE: AttrMask = AttrMask::PATH_MIG_STATE;
const DEST_QPN: AttrMask = AttrMask::DEST_QPN;

const ALL: &[QpType] = &[Rc, Uc, Ud, XrcSend, XrcRecv];
const CONNECTED: &[QpType] = &[Rc, Uc, XrcSend, XrcRecv];

#[rustfmt::skip]
const TABLE: &[Transition] = &[
    //   from     to     services         required                                   optional
    step(ANY,     Reset, ALL,             &[],                                       &[]),
    step(ANY,     Error, ALL,             &[],                                       &[]),

    step(&[Reset], Init, CONNECTED,       &[PKEY_INDEX, PORT, ACCESS],               &[]),
    step(&[Reset], Init, &[Ud],           &[PKEY_INDEX, PORT, QKEY],                 &[]),

    step(&[Init], Init,  CONNECTED,       &[],                                       &[PKEY_INDEX, PORT, ACCESS]),
    step(&[Init], Init,  &[Ud],           &[],                                       &[PKEY_INDEX, PORT, QKEY]),

    step(&[Init], Rtr,   &[Rc, XrcRecv],  &[AV, PATH_MTU, DEST_QPN, RQ_PSN,
                                            MAX_DEST_RD, RNR_TIMER],                 &[ALT_PATH, ACCESS, PKEY_INDEX]),
    step(&[Init], Rtr,   &[Uc, XrcSend],  &[AV, PATH_MTU, DEST_QPN, RQ_PSN],         &[ALT_PATH, ACCESS, PKEY_INDEX]),
    step(&[Init], Rtr,   &[Ud],           &[],                                       &[PKEY_INDEX, QKEY]),

    step(&[Rtr],  Rts,   &[Rc],           &[TIMEOUT, RETRY_CNT, RNR_RETRY, SQ_PSN,
                                            MAX_RD],                                 &[CUR_STATE, ALT_PATH, ACCESS,
                                                                                       RNR_TIMER, MIG_STATE]),
    step(&[Rtr],  Rts,   &[XrcSend],      &[TIMEOUT, RETRY_CNT, RNR_RETRY, SQ_PSN,
                                            MAX_RD],                                 &[CUR_STATE, ALT_PATH, ACCESS, MIG_STATE]),
    step(&[Rtr],  Rts,   &[XrcRecv],      &[TIMEOUT, SQ_PSN],                        &[CUR_STATE, ALT_PATH, ACCESS,
                                                                                       RNR_TIMER, MIG_STATE]),
    step(&[Rtr],  Rts,   &[Uc],           &[SQ_PSN],                                 &[CUR_STATE, ALT_PATH, ACCESS, MIG_STATE]),
    step(&[Rtr],  Rts,   &[Ud],           &[SQ_PSN],                                 &[CUR_STATE, QKEY]),

    step(&[Rts, Sqd], Rts, &[Rc, XrcRecv], &[],                                      &[CUR_STATE, ALT_PATH, ACCESS,
                                                                                       RNR_TIMER, MIG_STATE]),
    step(&[Rts, Sqd], Rts, &[Uc, XrcSend], &[],                                      &[CUR_STATE, ALT_PATH, ACCESS, MIG_STATE]),
    step(&[Rts, Sqd], Rts, &[Ud],         &[],                                       &[CUR_STATE, QKEY]),

    step(&[Rts],  Sqd,   ALL,             &[],                                       &[SQD_EVENT]),

    step(&[Sqd],  Sqd,   &[Rc],           &[],                                       &[PORT, AV, TIMEOUT, RETRY_CNT,
                                                                                       RNR_RETRY, MAX_RD, MAX_DEST_RD,
                                                                                       ALT_PATH, ACCESS, PKEY_INDEX,
                                                                                       RNR_TIMER, MIG_STATE]),
    step(&[Sqd],  Sqd,   &[XrcSend],      &[],                                       &[PORT, AV, TIMEOUT, RETRY_CNT,
                                                                                       RNR_RETRY, MAX_RD, ALT_PATH,
                                                                                       ACCESS, PKEY_INDEX, MIG_STATE]),
    step(&[Sqd],  Sqd,   &[XrcRecv],      &[],                                       &[PORT, AV, TIMEOUT, MAX_DEST_RD,
                                                                                       ALT_PATH, ACCESS, PKEY_INDEX,
                                                                                       RNR_TIMER, MIG_STATE]),
    step(&[Sqd],  Sqd,   &[Uc],           &[],                                       &[AV, ALT_PATH, ACCESS, PKEY_INDEX,
                                                                                       MIG_STATE]),
    step(&[Sqd],  Sqd,   &[Ud],           &[],                                       &[PKEY_INDEX, QKEY]),

    step(&[Sqe],  Rts,   &[Uc],           &[],                                       &[CUR_STATE, ACCESS]),
    step(&[Sqe],  Rts,   &[Ud],           &[],                                       &[CUR_STATE, QKEY]),
];

const fn step(
    from: &'static [QpState],
    to: QpState,
    services: &'static [QpType],
    required: &[AttrMask],
    optional: &[AttrMask],
) -> Transition {
    Transition { from, to, services, required: union(required), optional: union(optional) }
}

const fn union(masks: &[AttrMask]) -> AttrMask {
    let mut all = AttrMask::empty();
    let mut i = 0;
    while i < masks.len() {
        all = all.union(masks[i]);
        i += 1;
    }
    all
}

/// The step `from` → `to` of a service, if there is one.
pub(crate) fn find(from: QpState, to: QpState, service: QpType) -> Option<&'static Transition> {
    TABLE.iter().find(|step| step.is(from, to, service))
}

/// The number of lines of the table that declare a step.
#[cfg(test)]
pub(crate) fn count(from: QpState, to: QpState, service: QpType) -> usize {
    TABLE.iter().filter(|step| step.is(from, to, service)).count()
}

impl Transition {
    fn is(&self, from: QpState, to: QpState, service: QpType) -> bool {
        self.to == to && self.from.contains(&from) && self.services.contains(&service)
    }

    /// The attributes that the step accepts: required, optional, and the state itself.
    pub(crate) fn allowed(&self) -> AttrMask {
        self.required | self.optional | STATE
    }
}
