//! Makes and connects the device objects of one test.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use device::{
    Access, AddressVector, AttrMask, Completion, Gid, Mtu, Provider, Psn, QKey, QpAttr, QpCaps, QpState, QpType, Qpn,
    RKey, RecvWr, RemoteAddr, Sge, Sgl, Status, UdDestination,
};
use provider::{Cq, Device, Mr, Pd, Qp, QpSpec};
use serde::{Deserialize, Serialize};

use super::spec::TestTransport;
use crate::error::Error;

/// The Q_Key of this tool's UD queue pairs.
const QKEY: QKey = QKey(0x4c61_7065);
/// READs and atomics outstanding per queue pair.
pub(super) const RD_ATOMIC: u8 = 16;
/// Repetitions of a request; 7 repeats one that finds no receive buffer for ever.
pub(super) const RETRIES: u8 = 7;
/// The GRH before a UD message.
pub(crate) const GRH_BYTES: u32 = 40;
/// A wait of this length without a completion is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// The attributes of a queue pair that the peer needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndpointInfo {
    pub(crate) address: IpAddr,
    pub(crate) qpn: u32,
    pub(crate) psn: u32,
    pub(crate) mtu_bytes: u32,
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
    pub(crate) len_bytes: u64,
}

/// ACK timeout code: 67 ms.
const TIMEOUT: u8 = 14;

/// The access rights of peers and windows to a region.
const RIGHTS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::MW_BIND);

/// The rights of peers on a queue pair.
const PEERS_MAY: Access = Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

impl EndpointInfo {
    pub(crate) fn remote(&self, offset: u64) -> RemoteAddr {
        RemoteAddr { addr: self.addr + offset, rkey: RKey(self.rkey) }
    }
}

/// Parameters of endpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) transport: TestTransport,
    pub(crate) qps: u32,
    pub(crate) depth: u32,
    pub(crate) region_bytes: usize,
    pub(crate) path_mtu: Option<Mtu>,
}

/// Queue pairs that share a completion queue for each direction, and one memory region.
pub(crate) struct Endpoints {
    pub(crate) device: Device,
    pub(crate) pd: Pd,
    pub(crate) send_cq: Cq,
    pub(crate) recv_cq: Cq,
    pub(crate) mr: Mr,
    pub(crate) qps: Vec<Qp>,
    shape: Shape,
    address: IpAddr,
    mtu: Mtu,
    psns: Vec<u32>,
}

/// Opens the device that has `address`.
pub(crate) fn open(address: IpAddr) -> Result<Device, Error> {
    Ok(Device::open(Some(provider::preferred()?), Some(device_name(address)?))?)
}

/// The name of the device that has `address`.
pub(crate) fn device_name(address: IpAddr) -> Result<String, Error> {
    let provider = provider::preferred()?;
    let devices = Device::list(provider)?;
    let by_gid = devices.iter().find(|info| info.port.gids.contains(&Gid::from(address)));
    // The GIDs of iWARP devices tell no addresses.
    let has =
        |name: &str| Device::open(Some(provider), Some(name.into())).is_ok_and(|d| d.addresses().contains(&address));
    let found = by_gid.or_else(|| devices.iter().find(|info| has(&info.name)));
    found.map(|info| info.name.clone()).ok_or(Error::NoDevice(address))
}

/// The address of this host for those who name none: that of the default device of the system, or loop-back.
pub(crate) fn default_address() -> Result<IpAddr, Error> {
    match provider::preferred()? {
        Provider::Longarm => Ok(Ipv4Addr::LOCALHOST.into()),
        Provider::Verbs => {
            let name = std::env::var("LONGARM_DEVICE").ok().filter(|name| !name.is_empty());
            let device = Device::open(Some(Provider::Verbs), name)?;
            device.addresses().first().copied().ok_or_else(|| Error::NoAddress(device.info().name))
        }
    }
}

impl Endpoints {
    pub(crate) fn new(device: &Device, address: IpAddr, shape: Shape) -> Result<Endpoints, Error> {
        let pd = device.alloc_pd()?;
        let cq_depth = shape.qps.saturating_mul(shape.depth * 2).saturating_add(16).min(device.limits().max_cqe);
        let (send_cq, recv_cq) = (device.create_cq(cq_depth, None, 0)?, device.create_cq(cq_depth, None, 0)?);
        let mr = pd.allocate(shape.region_bytes, RIGHTS)?;
        let mtu = shape.path_mtu.unwrap_or_else(|| device.port().active_mtu);
        let mut endpoints = Endpoints {
            device: device.clone(),
            pd,
            send_cq,
            recv_cq,
            mr,
            qps: Vec::new(),
            shape,
            address,
            mtu,
            psns: Vec::new(),
        };
        for index in 0..shape.qps {
            endpoints.qps.push(endpoints.make_qp()?);
            endpoints.psns.push(random_psn(index));
        }
        Ok(endpoints)
    }

    fn make_qp(&self) -> Result<Qp, Error> {
        let caps = QpCaps {
            max_send_wr: self.shape.depth + 8,
            max_recv_wr: self.shape.depth * 2 + 8,
            max_send_sge: 1,
            max_recv_sge: 2,
            max_inline_bytes: self.device.limits().max_inline_bytes.min(64),
        };
        let qp_type = match self.shape.transport {
            TestTransport::Rc => QpType::Rc,
            TestTransport::Uc => QpType::Uc,
            TestTransport::Ud => QpType::Ud,
        };
        let spec = QpSpec {
            qp_type,
            pd: &self.pd,
            send_cq: &self.send_cq,
            recv_cq: &self.recv_cq,
            srq: None,
            caps,
            signal_all: false,
        };
        Ok(self.device.create_qp(&spec)?)
    }

    /// Our address.
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// The attributes for the peer.
    pub(crate) fn infos(&self) -> Vec<EndpointInfo> {
        let info = |(qp, psn): (&Qp, &u32)| EndpointInfo {
            address: self.address,
            qpn: qp.qpn().get(),
            psn: *psn,
            mtu_bytes: self.mtu.bytes(),
            addr: self.mr.addr(),
            rkey: self.mr.rkey().0,
            len_bytes: self.mr.len_bytes(),
        };
        self.qps.iter().zip(&self.psns).map(info).collect()
    }

    /// Connects each queue pair with the peer's queue pair of the same index.
    pub(crate) fn connect(&self, peers: &[EndpointInfo]) -> Result<(), Error> {
        if peers.len() != self.qps.len() {
            return Err(Error::Peer(format!("the peer has {} queue pairs, we have {}", peers.len(), self.qps.len())));
        }
        if self.device.capabilities().by_address_only {
            return Err(Error::ByAddressOnly(self.device.info().name));
        }
        for ((qp, psn), peer) in self.qps.iter().zip(&self.psns).zip(peers) {
            self.connect_one(qp, Psn::new(*psn), peer)?;
        }
        Ok(())
    }

    /// Makes the queue pairs ready for receives, before they are connected by address.
    pub(super) fn initialize(&self) -> Result<(), Error> {
        let attr = QpAttr { state: QpState::Init, access: PEERS_MAY, ..QpAttr::default() };
        Ok(self.qps.iter().try_for_each(|qp| qp.modify(&attr, M_INIT | AttrMask::ACCESS_FLAGS))?)
    }

    fn connect_one(&self, qp: &Qp, psn: Psn, peer: &EndpointInfo) -> Result<(), Error> {
        let mut attr = QpAttr {
            state: QpState::Init,
            access: PEERS_MAY,
            qkey: QKEY,
            address: self.path(peer),
            path_mtu: smaller_mtu(self.mtu, peer.mtu_bytes),
            dest_qpn: Qpn::new(peer.qpn),
            rq_psn: Psn::new(peer.psn),
            sq_psn: psn,
            max_rd_atomic: RD_ATOMIC,
            max_dest_rd_atomic: RD_ATOMIC,
            ..timers(QpAttr::default())
        };
        let steps = match self.shape.transport {
            TestTransport::Rc => [M_INIT | AttrMask::ACCESS_FLAGS, M_RTR | M_RTR_RC, M_RTS | M_RTS_RC],
            TestTransport::Uc => [M_INIT | AttrMask::ACCESS_FLAGS, M_RTR, M_RTS],
            TestTransport::Ud => [M_INIT | AttrMask::QKEY, AttrMask::STATE, M_RTS],
        };
        for (state, mask) in [QpState::Init, QpState::Rtr, QpState::Rts].into_iter().zip(steps) {
            attr.state = state;
            qp.modify(&attr, mask)?;
        }
        Ok(())
    }

    fn path(&self, peer: &EndpointInfo) -> AddressVector {
        AddressVector::new(Gid::from(self.address), Gid::from(peer.address))
    }

    /// The destination of a send work request; on UD queue pairs only.
    pub(crate) fn datagram(&self, peer: &EndpointInfo) -> Option<Box<UdDestination>> {
        (self.shape.transport == TestTransport::Ud).then(|| {
            let remote_qpn = Qpn::new(peer.qpn);
            Box::new(UdDestination { address: self.path(peer), remote_qpn, remote_qkey: QKEY })
        })
    }

    /// Bytes before the message in a receive buffer.
    pub(crate) fn grh_bytes(&self) -> u32 {
        if self.shape.transport == TestTransport::Ud { GRH_BYTES } else { 0 }
    }

    /// A scatter/gather list with one entry of the local region.
    pub(crate) fn sgl(&self, offset: u64, len_bytes: u32) -> Sgl {
        Sgl::from_slice(&[Sge { addr: self.mr.addr() + offset, len_bytes, lkey: self.mr.lkey() }])
    }

    /// Posts receives into the local region at the queue pair `index`; adds room for the GRH.
    /// Their completions have the index as work request id.
    pub(crate) fn post_recvs(&self, index: usize, count: u32, offset: u64, len_bytes: u32) -> Result<(), Error> {
        let sgl = self.sgl(offset, len_bytes + self.grh_bytes());
        Ok(self.qps[index].post_recv((0..count).map(|_| RecvWr { wr_id: index as u64, sgl: sgl.clone() }))?)
    }

    /// Copies from the local region.
    pub(crate) fn read_region(&self, offset: usize, out: &mut [u8]) {
        let part = self.mr.region().and_then(|region| region.span().part(offset, out.len()));
        part.expect("a range of the region that we made").read(out);
    }

    /// Copies into the local region.
    pub(crate) fn write_region(&self, offset: usize, data: &[u8]) {
        let part = self.mr.region().and_then(|region| region.span().part(offset, data.len()));
        part.expect("a range of the region that we made").write(data);
    }

    /// Waits for one completion, which must be a success.
    pub(crate) fn wait(&self, cq: &Cq) -> Result<Completion, Error> {
        self.wait_any(cq).and_then(|completion| self.check(completion))
    }

    /// Waits for one completion of any status.
    pub(crate) fn wait_any(&self, cq: &Cq) -> Result<Completion, Error> {
        let (start, mut out) = (Instant::now(), Vec::with_capacity(1));
        while cq.poll(&mut out, 1)? == 0 {
            if start.elapsed() > PATIENCE {
                return Err(Error::Silence(PATIENCE));
            }
        }
        Ok(out[0])
    }

    /// Turns a failed completion into an error.
    pub(crate) fn check(&self, completion: Completion) -> Result<Completion, Error> {
        if completion.status == Status::Success {
            return Ok(completion);
        }
        let failed = self.qps.iter().find(|qp| qp.qpn() == completion.qpn);
        let why = failed.and_then(|qp| qp.failure()).map_or(String::new(), |reason| format!(": {reason}"));
        Err(Error::Completion(format!("{:?}{why}", completion.status)))
    }
}

const M_INIT: AttrMask = AttrMask::STATE.union(AttrMask::PKEY_INDEX).union(AttrMask::PORT);
const M_RTR: AttrMask =
    AttrMask::STATE.union(AttrMask::AV).union(AttrMask::PATH_MTU).union(AttrMask::DEST_QPN).union(AttrMask::RQ_PSN);
const M_RTR_RC: AttrMask = AttrMask::MAX_DEST_RD_ATOMIC.union(AttrMask::MIN_RNR_TIMER);
const M_RTS: AttrMask = AttrMask::STATE.union(AttrMask::SQ_PSN);
const M_RTS_RC: AttrMask =
    AttrMask::TIMEOUT.union(AttrMask::RETRY_CNT).union(AttrMask::RNR_RETRY).union(AttrMask::MAX_QP_RD_ATOMIC);

/// The attributes with this tool's timers and repetitions.
pub(super) fn timers(attr: QpAttr) -> QpAttr {
    QpAttr { timeout: TIMEOUT, retry_count: RETRIES, rnr_retry: RETRIES, min_rnr_timer: 1, ..attr }
}

fn smaller_mtu(ours: Mtu, theirs_bytes: u32) -> Mtu {
    Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= theirs_bytes && *mtu <= ours).unwrap_or(Mtu::B256)
}

/// A PSN that outsiders cannot predict, from the random keys of a hasher.
fn random_psn(index: u32) -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(index) as u32 & 0xff_ffff
}
