//! Completions of C in our words.

use std::ffi::c_int;

use abi::{IBV_WC_GRH, IBV_WC_WITH_IMM, ibv_wc};
use transport::{Completion, CompletionOp, Status};
use wire::{Qpn, RKey};

use crate::quirks::DeviceQuirks;

/// A completion in our words. Failed ones have no valid operation.
pub(crate) fn of(wc: &ibv_wc, quirks: &DeviceQuirks) -> Completion {
    let has = |flag| wc.wc_flags & flag != 0;
    let qpn = |number: u32| Qpn::new(number & 0xff_ffff);
    Completion {
        wr_id: wc.wr_id,
        status: status(wc.status),
        op: op(wc.opcode),
        byte_len: wc.byte_len,
        imm: has(IBV_WC_WITH_IMM).then_some(u32::from_be(wc.imm_data)),
        invalidated: has(quirks.invalidated_flag).then_some(RKey(wc.imm_data)),
        qpn: qpn(wc.qp_num),
        src_qpn: qpn(wc.src_qp),
        grh: has(IBV_WC_GRH),
        // C does not tell: the reader of the GRH finds out by the checksum.
        ipv4: false,
        solicited: false,
        vendor_err: wc.vendor_err,
    }
}

/// `enum ibv_wc_status`; statuses of services that no handle offers are General.
fn status(number: c_int) -> Status {
    use Status::*;
    let known = [
        Success,
        LocalLength,
        LocalQpOperation,
        LocalProtection,
        WorkRequestFlushed,
        MwBind,
        BadResponse,
        LocalAccess,
        RemoteInvalidRequest,
        RemoteAccess,
        RemoteOperation,
        RetryExceeded,
        RnrRetryExceeded,
        RemoteInvalidRdRequest,
        RemoteAborted,
        Fatal,
    ];
    known.into_iter().find(|status| *status as c_int == number).unwrap_or(General)
}

/// `enum ibv_wc_opcode`.
fn op(number: c_int) -> CompletionOp {
    use CompletionOp::*;
    let known = [Write, Read, CompareSwap, FetchAdd, BindMw, LocalInvalidate, Flush, AtomicWrite, Recv, RecvWriteImm];
    known.into_iter().find(|op| *op as c_int == number).unwrap_or(Send)
}

#[cfg(test)]
mod tests {
    use abi::{IBV_WC_WITH_INV, Zeroed};

    use super::*;

    fn usual() -> DeviceQuirks {
        DeviceQuirks::of(0)
    }

    fn rxe() -> DeviceQuirks {
        DeviceQuirks::of(0xff_ffff)
    }

    #[test]
    fn immediate_data_is_in_host_order_and_keys_are_as_they_are() {
        let wc = ibv_wc { wc_flags: IBV_WC_WITH_IMM, imm_data: 7u32.to_be(), opcode: 128, ..ibv_wc::zeroed() };
        let completion = of(&wc, &usual());
        assert_eq!((completion.imm, completion.invalidated, completion.op), (Some(7), None, CompletionOp::Recv));
        let completion = of(&ibv_wc { wc_flags: IBV_WC_WITH_INV, imm_data: 7, ..wc }, &usual());
        assert_eq!((completion.imm, completion.invalidated), (None, Some(RKey(7))));
    }

    #[test]
    fn a_key_that_was_invalidated_is_told_by_the_flag_of_the_device() {
        let wc = ibv_wc { wc_flags: 1 << 2, imm_data: 7, opcode: 128, ..ibv_wc::zeroed() };
        assert_eq!(of(&wc, &rxe()).invalidated, Some(RKey(7)));
        assert_eq!(of(&wc, &usual()).invalidated, None, "it says that a checksum is right");
    }

    #[test]
    fn statuses_have_their_numbers() {
        assert_eq!((status(0), status(12), status(10)), (Status::Success, Status::RetryExceeded, Status::RemoteAccess));
        assert_eq!((status(3), status(99)), (Status::General, Status::General));
    }
}
