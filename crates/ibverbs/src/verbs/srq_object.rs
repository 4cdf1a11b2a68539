//! The objects behind shared receive queues.

use device::Srq;

use crate::object::CObject;
use crate::verbs::unacked::Unacked;
use abi::*;

/// Our part of a shared receive queue.
pub(crate) struct SrqOwn {
    pub(crate) srq: Srq,
    pub(crate) unacked: Unacked,
}

pub(crate) type SrqObject = CObject<ibv_srq, SrqOwn>;
