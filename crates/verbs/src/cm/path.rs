//! Paths that limit the payload per packet.

use abi::{
    IBV_PATH_FLAG_GMP, IBV_PATH_FLAG_INBOUND_REVERSE, IBV_PATH_FLAG_OUTBOUND, IBV_PATH_FLAG_PRIMARY, ibv_path_data,
    ibv_path_record, ibv_sa_path_rec,
};
use transport::Mtu;

/// The flags of the only path of a connection.
const FLAGS: u32 = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_OUTBOUND | IBV_PATH_FLAG_INBOUND_REVERSE;

/// A resolved path with another MTU, in the form in which a program sets one (`RDMA_OPTION_IB_PATH`).
pub(super) fn with_mtu(path: &ibv_sa_path_rec, mtu: Mtu) -> ibv_path_data {
    let flow_label = u32::from_be(path.flow_label);
    let path = ibv_path_record {
        service_id: 0,
        dgid: path.dgid,
        sgid: path.sgid,
        dlid: path.dlid,
        slid: path.slid,
        flowlabel_hoplimit: (flow_label << 8 | u32::from(path.hop_limit)).to_be(),
        tclass: path.traffic_class,
        reversible_numpath: u8::from(path.reversible != 0) << 7 | 1,
        pkey: path.pkey,
        qosclass_sl: u16::from(path.sl).to_be(),
        mtu: exactly(mtu as u8),
        rate: exactly(path.rate),
        packetlifetime: exactly(path.packet_life_time),
        preference: 0,
        reserved: [0; 6],
    };
    ibv_path_data { flags: FLAGS, reserved: 0, path }
}

/// A field with the selector of an exact value above it (IB specification 15.2.5.16).
fn exactly(value: u8) -> u8 {
    const EXACTLY: u8 = 2;
    EXACTLY << 6 | value
}

#[cfg(test)]
mod tests {
    use abi::Zeroed;

    use super::*;

    #[test]
    fn only_the_mtu_changes() {
        let mut resolved = ibv_sa_path_rec::zeroed();
        (resolved.flow_label, resolved.hop_limit) = (0x1_2345u32.to_be(), 64);
        (resolved.mtu, resolved.rate, resolved.packet_life_time) = (5, 3, 16);
        (resolved.sl, resolved.pkey, resolved.reversible) = (7, 0xffff, 1);
        let ibv_path_data { flags, path, .. } = with_mtu(&resolved, Mtu::B512);
        assert_eq!(flags, 0b10_1011);
        assert_eq!(path.flowlabel_hoplimit.to_be(), 0x0123_4540);
        assert_eq!((path.mtu, path.rate, path.packetlifetime), (0x82, 0x83, 0x90));
        assert_eq!((path.qosclass_sl.to_be(), path.pkey, path.reversible_numpath), (7, 0xffff, 0x81));
    }
}
