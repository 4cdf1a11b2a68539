//! A queue pair for datagrams of one local address.

use std::net::SocketAddr;

use device::{
    Access, AddressVector, AttrMask, Cq, Gid, Mr, Mtu, PKey, Payload, QKey, Qp, QpAttr, QpCaps, QpSpec, QpState,
    QpType, Qpn, RecvWr, SendFlags, SendOp, SendWr, Sge, UdDestination,
};
use smallvec::smallvec;

use crate::devices::SharedDevices;
use crate::errno::Result;
use crate::protocol::datagram::DatagramSource;
use crate::settings::{LOW_WATER, Settings};

/// The key of every datagram queue pair of the connection manager's (`RDMA_UDP_QKEY`).
const KEY: QKey = QKey(0x0123_4567);
/// Bytes before every received datagram: the global route header.
pub(super) const GRH_BYTES: u32 = 40;

/// The purpose of a datagram's work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DatagramWork {
    Receive { end: usize, slot: u16 },
    Send { slot: u16 },
}

const RECEIVE: u64 = 1 << 63;

impl DatagramWork {
    fn encode(self) -> u64 {
        match self {
            DatagramWork::Receive { end, slot } => RECEIVE | (end as u64) << 16 | u64::from(slot),
            DatagramWork::Send { slot } => slot.into(),
        }
    }

    pub(super) fn decode(wr_id: u64) -> DatagramWork {
        let slot = wr_id as u16;
        match wr_id & RECEIVE {
            0 => DatagramWork::Send { slot },
            _ => DatagramWork::Receive { end: ((wr_id & !RECEIVE) >> 16) as usize, slot },
        }
    }
}

/// One local address of a datagram socket.
#[derive(Debug)]
pub(super) struct DatagramQp {
    /// Its number among the socket's.
    index: usize,
    /// The address and port that peers see.
    pub(super) source: SocketAddr,
    qp: Qp,
    recv: Mr,
    settings: Settings,
    mtu: Mtu,
    /// Last: it is closed when all else has gone.
    _device: SharedDevices,
}

impl DatagramQp {
    pub(super) fn new(
        index: usize,
        source: SocketAddr,
        shared: &SharedDevices,
        cq: &Cq,
        settings: &Settings,
    ) -> Result<DatagramQp> {
        let (device, pd) = (&shared.device, &shared.pd);
        let caps = QpCaps {
            max_send_wr: settings.send_queue.into(),
            max_recv_wr: settings.recv_queue.into(),
            max_send_sge: 1,
            max_recv_sge: 2,
            max_inline_bytes: settings.inline.into(),
        };
        let (qp_type, send_cq, recv_cq) = (QpType::Ud, cq, cq);
        let qp = device.create_qp(&QpSpec { qp_type, pd, send_cq, recv_cq, srq: None, caps, signal_all: true })?;
        let recv = pd.allocate((settings.recv_buffer + GRH_BYTES) as usize, Access::LOCAL_WRITE)?;
        let end = DatagramQp {
            index,
            source,
            qp,
            recv,
            settings: *settings,
            mtu: device.port().active_mtu,
            _device: shared.clone(),
        };
        end.bring_up()?;
        Ok(end)
    }

    fn bring_up(&self) -> Result<()> {
        let init = QpAttr { state: QpState::Init, port: 1, pkey: PKey::DEFAULT, qkey: KEY, ..QpAttr::default() };
        self.qp.modify(&init, AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::QKEY)?;
        (0..self.settings.recv_queue).try_for_each(|slot| self.receive(slot))?;
        self.qp.modify(&QpAttr { state: QpState::Rtr, ..QpAttr::default() }, AttrMask::STATE)?;
        self.qp.modify(&QpAttr { state: QpState::Rts, ..QpAttr::default() }, AttrMask::STATE | AttrMask::SQ_PSN)?;
        Ok(())
    }

    pub(super) fn qpn(&self) -> Qpn {
        self.qp.qpn()
    }

    /// The address vector for a peer.
    pub(super) fn path_to(&self, to: SocketAddr) -> AddressVector {
        AddressVector::new(Gid::from(self.source.ip()), Gid::from(to.ip()))
    }

    /// Bytes of data that fit a datagram.
    pub(super) fn room(&self) -> usize {
        (LOW_WATER as usize).min(self.mtu.bytes() as usize) - DatagramSource(self.source).bytes()
    }

    /// Lets a datagram arrive in that slot.
    pub(super) fn receive(&self, slot: u16) -> Result<()> {
        let sge = |addr, len_bytes| Sge { addr: self.recv.addr() + u64::from(addr), len_bytes, lkey: self.recv.lkey() };
        let sgl = smallvec![sge(self.settings.recv_buffer, GRH_BYTES), sge(offset(slot), LOW_WATER)];
        let wr_id = DatagramWork::Receive { end: self.index, slot }.encode();
        Ok(self.qp.post_recv([RecvWr { wr_id, sgl }])?)
    }

    /// The bytes in a slot, header and all.
    pub(super) fn received(&self, slot: u16, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len.min(LOW_WATER) as usize];
        let span = self.recv.region().and_then(|region| region.span().part(offset(slot) as usize, bytes.len()));
        if let Some(span) = span {
            span.read(&mut bytes);
        }
        bytes
    }

    /// Sends the bytes that the payload names.
    pub(super) fn send(&self, slot: u16, payload: Payload, address: AddressVector, qpn: Qpn) -> Result<()> {
        let wr = SendWr {
            wr_id: DatagramWork::Send { slot }.encode(),
            op: SendOp::Send,
            flags: SendFlags::empty(),
            payload,
            datagram: Some(Box::new(UdDestination { address, remote_qpn: qpn, remote_qkey: KEY })),
            xrc_srq: None,
        };
        Ok(self.qp.post_send([wr])?)
    }
}

/// The offset of a slot in a buffer.
pub(super) fn offset(slot: u16) -> u32 {
    u32::from(slot) * LOW_WATER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_round_trips() {
        for work in [
            DatagramWork::Send { slot: 7 },
            DatagramWork::Receive { end: 3, slot: 65_534 },
            DatagramWork::Receive { end: 0, slot: 0 },
        ] {
            assert_eq!(DatagramWork::decode(work.encode()), work);
        }
    }
}
