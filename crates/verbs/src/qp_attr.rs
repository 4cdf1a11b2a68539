//! Attributes of queue pairs, in our words and in C's.

use std::ffi::c_int;

use abi::{Zeroed, ibv_ah_attr, ibv_gid, ibv_qp_attr};
use transport::{Access, AddressVector, AttrMask, Mtu, QpAttr, QpState};
use wire::{Gid, Psn, QKey, Qpn};

use crate::addresses::{GidEntry, PORT, gid_of};

/// The attributes that the mask names, for C. `None` if the path's source address is not in the table.
pub(crate) fn to_c(attr: &QpAttr, mask: AttrMask, gids: &[GidEntry]) -> Option<ibv_qp_attr> {
    let mut c = ibv_qp_attr::zeroed();
    c.qp_state = attr.state as c_int;
    c.cur_qp_state = attr.current_state as c_int;
    c.path_mtu = attr.path_mtu as c_int;
    c.qkey = attr.qkey.0;
    c.rq_psn = attr.rq_psn.get();
    c.sq_psn = attr.sq_psn.get();
    c.dest_qp_num = attr.dest_qpn.get();
    c.qp_access_flags = attr.access.bits();
    c.pkey_index = attr.pkey_index;
    c.en_sqd_async_notify = attr.notify_drained.into();
    c.max_rd_atomic = attr.max_rd_atomic;
    c.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    c.min_rnr_timer = attr.min_rnr_timer;
    c.port_num = attr.port;
    c.timeout = attr.timeout;
    c.retry_cnt = attr.retry_count;
    c.rnr_retry = attr.rnr_retry;
    if mask.contains(AttrMask::AV) {
        c.ah_attr = vector_to_c(&attr.address, gids)?;
    }
    Some(c)
}

/// Attributes of C, as `rdma_init_qp_attr(3)` and `ibv_query_qp(3)` give them. Unknown numbers become the defaults.
pub(crate) fn of_c(c: &ibv_qp_attr, gids: &[GidEntry]) -> QpAttr {
    QpAttr {
        state: state(c.qp_state),
        current_state: state(c.cur_qp_state),
        notify_drained: c.en_sqd_async_notify != 0,
        access: Access::from_bits_truncate(c.qp_access_flags),
        pkey_index: c.pkey_index,
        port: c.port_num,
        qkey: QKey(c.qkey),
        address: vector_of_c(&c.ah_attr, gids),
        path_mtu: Mtu::ALL.into_iter().find(|mtu| *mtu as c_int == c.path_mtu).unwrap_or(Mtu::B1024),
        timeout: c.timeout,
        retry_count: c.retry_cnt,
        rnr_retry: c.rnr_retry,
        rq_psn: Psn::new(c.rq_psn & 0xff_ffff),
        sq_psn: Psn::new(c.sq_psn & 0xff_ffff),
        max_rd_atomic: c.max_rd_atomic,
        max_dest_rd_atomic: c.max_dest_rd_atomic,
        min_rnr_timer: c.min_rnr_timer,
        dest_qpn: Qpn::new(c.dest_qp_num & 0xff_ffff),
        draining: c.sq_draining != 0,
        ..QpAttr::default()
    }
}

/// A state by its number; Error for a number that the specification does not have.
pub(crate) fn state(number: c_int) -> QpState {
    use QpState::{Error, Init, Reset, Rtr, Rts, Sqd, Sqe};
    [Reset, Init, Rtr, Rts, Sqd, Sqe].into_iter().find(|state| *state as c_int == number).unwrap_or(Error)
}

/// A path for C. `None` if its source address is not in the table.
pub(crate) fn vector_to_c(path: &AddressVector, gids: &[GidEntry]) -> Option<ibv_ah_attr> {
    let source = gids.iter().find(|entry| entry.gid == path.source)?;
    let mut c = ibv_ah_attr::zeroed();
    c.grh.dgid = ibv_gid { raw: path.destination.0 };
    c.grh.flow_label = path.flow_label;
    c.grh.sgid_index = source.index;
    c.grh.hop_limit = path.hop_limit;
    c.grh.traffic_class = path.traffic_class;
    c.is_global = 1;
    c.port_num = PORT;
    Some(c)
}

/// A path of C. The source is zero if its index is not in the table.
pub(crate) fn vector_of_c(c: &ibv_ah_attr, gids: &[GidEntry]) -> AddressVector {
    let source = gids.iter().find(|entry| entry.index == c.grh.sgid_index);
    AddressVector {
        source: source.map_or(Gid::default(), |entry| entry.gid),
        destination: gid_of(c.grh.dgid),
        flow_label: c.grh.flow_label,
        hop_limit: c.grh.hop_limit,
        traffic_class: c.grh.traffic_class,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn attributes_survive_the_way_through_c() {
        let [source, destination] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(|ip| Gid::from(IpAddr::from(ip)));
        let gids = [GidEntry { index: 3, gid: source, interface_index: 1 }];
        let attr = QpAttr {
            state: QpState::Rtr,
            address: AddressVector { traffic_class: 104, ..AddressVector::new(source, destination) },
            path_mtu: Mtu::B4096,
            rq_psn: Psn::new(0xff_fffe),
            dest_qpn: Qpn::new(0x12_3456),
            ..QpAttr::default()
        };
        let c = to_c(&attr, AttrMask::STATE | AttrMask::AV, &gids).unwrap();
        assert_eq!((c.ah_attr.grh.sgid_index, c.ah_attr.port_num), (3, 1));
        let back = of_c(&c, &gids);
        assert_eq!(back, QpAttr { current_state: QpState::Reset, port_mtu: back.port_mtu, ..attr });
    }

    #[test]
    fn a_path_from_an_address_of_another_device_is_refused() {
        let attr = QpAttr { state: QpState::Rtr, ..QpAttr::default() };
        assert!(to_c(&attr, AttrMask::AV, &[]).is_none());
        assert!(to_c(&attr, AttrMask::STATE, &[]).is_some());
    }
}
