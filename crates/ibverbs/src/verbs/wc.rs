//! Completions as C's structure.

use device::Completion;

use abi::*;

/// A completion as `ibv_poll_cq` writes it.
#[inline]
pub(crate) fn of(completion: &Completion) -> ibv_wc {
    ibv_wc {
        wr_id: completion.wr_id,
        status: completion.status as c_int,
        opcode: completion.op as c_int,
        vendor_err: completion.vendor_err,
        byte_len: completion.byte_len,
        imm_data: imm_data(completion),
        qp_num: completion.qpn.get(),
        src_qp: completion.src_qpn.get(),
        wc_flags: flags(completion),
        pkey_index: 0,
        slid: 0,
        sl: sl(completion),
        dlid_path_bits: 0,
    }
}

/// Immediate data as it came on the wire, or the key that was invalidated.
#[inline]
pub(crate) fn imm_data(completion: &Completion) -> u32 {
    match (completion.imm, completion.invalidated) {
        (Some(imm), _) => imm.to_be(),
        (None, Some(rkey)) => rkey.0,
        (None, None) => 0,
    }
}

/// For a datagram the kind of packet, as mlx5 tells it: bit 3 for RoCEv2, below it 1 for IPv6 and
/// 2 for IPv4. UCX learns from it where the GRH has the addresses (annex A17.4.5.1 wants it told).
#[inline]
pub(crate) fn sl(completion: &Completion) -> u8 {
    match (completion.grh, completion.ipv4) {
        (false, _) => 0,
        (true, false) => 0b1001,
        (true, true) => 0b1010,
    }
}

#[inline]
pub(crate) fn flags(completion: &Completion) -> c_uint {
    let bit = |set: bool, flag: c_uint| if set { flag } else { 0 };
    bit(completion.grh, IBV_WC_GRH)
        | bit(completion.imm.is_some(), IBV_WC_WITH_IMM)
        | bit(completion.invalidated.is_some(), IBV_WC_WITH_INV)
}
