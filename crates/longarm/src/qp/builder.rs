//! Building queue pairs.

use std::marker::PhantomData;

use transport::{Access, AttrMask, QpAttr, QpCaps, QpState};
use wire::{Gid, QKey};

use super::connector::ConnectParams;
use super::core::{QpResources, QueuePairCore};
use super::retry::Retry;
use super::service::{Connected, Rc, Service, Uc, Ud};
use super::{UdQueuePair, Unconnected};
use crate::cq::CompletionQueue;
use crate::domain::ProtectionDomain;
use crate::error::ResourceError;
use crate::open_device::Device;
use crate::srq::SharedReceiveQueue;

/// The settings of a queue pair before it is made. Each has a default that suits most programs.
#[derive(Clone, Debug)]
#[must_use = "`build` makes the queue pair"]
pub struct QpBuilder<S = Rc> {
    resources: QpResources,
    access: Access,
    retry: Retry,
    read_depth: u8,
    gid: Option<Gid>,
    qkey: QKey,
    mtu: Option<transport::Mtu>,
    /// The program chose the bytes of inline data.
    inline_is_chosen: bool,
    service: PhantomData<S>,
}

impl ProtectionDomain {
    /// Starts a queue pair for reliable connections, with its completions in `cq`.
    pub fn rc(&self, cq: &CompletionQueue) -> QpBuilder<Rc> {
        QpBuilder::new(self, cq)
    }

    /// Starts a queue pair for unreliable connections.
    pub fn uc(&self, cq: &CompletionQueue) -> QpBuilder<Uc> {
        QpBuilder::new(self, cq)
    }

    /// Starts an endpoint for unreliable datagrams.
    pub fn ud(&self, cq: &CompletionQueue) -> QpBuilder<Ud> {
        QpBuilder::new(self, cq)
    }
}

impl<S: Service> QpBuilder<S> {
    pub(crate) fn new(domain: &ProtectionDomain, cq: &CompletionQueue) -> QpBuilder<S> {
        QpBuilder {
            resources: QpResources {
                domain: domain.clone(),
                device: domain.device().clone(),
                send_cq: cq.clone(),
                recv_cq: cq.clone(),
                srq: None,
                caps: QpCaps {
                    max_send_wr: 128,
                    max_recv_wr: 128,
                    max_send_sge: 4,
                    max_recv_sge: 4,
                    max_inline_bytes: 256,
                },
            },
            access: all_rights(domain.device()),
            retry: Retry::default(),
            read_depth: 16,
            gid: None,
            qkey: QKey(DEFAULT_QKEY),
            mtu: None,
            inline_is_chosen: false,
            service: PhantomData,
        }
    }

    /// Sends outstanding at most: 128 if not set.
    pub fn send_depth(mut self, requests: u32) -> QpBuilder<S> {
        self.resources.caps.max_send_wr = requests;
        self
    }

    /// Receives outstanding at most: 128 if not set.
    pub fn recv_depth(mut self, requests: u32) -> QpBuilder<S> {
        self.resources.caps.max_recv_wr = requests;
        self
    }

    /// Buffers that one message may be gathered from or scattered to: 4 if not set.
    pub fn list_len(mut self, buffers: u32) -> QpBuilder<S> {
        self.resources.caps.max_send_sge = buffers;
        self.resources.caps.max_recv_sge = buffers;
        self
    }

    /// Bytes that may be sent inline. If not set they are 256, or less where the device's
    /// [limit](crate::Limits::max_inline_bytes) is lower.
    pub fn inline_bytes(mut self, bytes: u32) -> QpBuilder<S> {
        self.inline_is_chosen = true;
        self.resources.caps.max_inline_bytes = bytes;
        self
    }

    /// Completions of receives go to another queue than those of sends.
    pub fn recv_cq(mut self, cq: &CompletionQueue) -> QpBuilder<S> {
        self.resources.recv_cq = cq.clone();
        self.resources.srq = None;
        self
    }

    /// Makes it on this device instead of the domain's; its events come from that device. All devices
    /// of a process are one engine, so memory and completion queues serve queue pairs on any of them.
    /// The addresses decide which device a connection needs: see
    /// [`Route::open_device`](crate::Route::open_device) and [`Incoming::open_device`](crate::Incoming::open_device).
    pub fn on(mut self, device: &Device) -> QpBuilder<S> {
        let own = self.resources.domain.device();
        // A device of the system that is opened twice is two devices to its library.
        self.resources.device = if own.names_same(device) { own.clone() } else { device.clone() };
        self
    }

    /// The local address to use: the device's first IPv4 address if not set.
    pub fn gid(mut self, gid: Gid) -> QpBuilder<S> {
        self.gid = Some(gid);
        self
    }

    /// The device that it will be on.
    pub(crate) fn device(&self) -> &Device {
        &self.resources.device
    }

    /// The local address that was asked for, if one was.
    pub(crate) fn chosen_address(&self) -> Option<std::net::IpAddr> {
        self.gid.map(|gid| gid.ip())
    }

    /// Checks the retry counts, and that all resources are of one device. Lowers a size that the program left open to the
    /// device's limit.
    fn check(&mut self) -> Result<(), ResourceError> {
        if !self.inline_is_chosen {
            let max = self.resources.device.limits().max_inline_bytes;
            self.resources.caps.max_inline_bytes = self.resources.caps.max_inline_bytes.min(max);
        }
        let device = self.resources.domain.device();
        self.retry.check()?;
        let same = |cq: &CompletionQueue| cq.core().is_of(device);
        if !same(&self.resources.send_cq) || !same(&self.resources.recv_cq) {
            return Err(ResourceError::OtherDevice("completion queue"));
        }
        match &self.resources.srq {
            Some(srq) if !srq.is_of(&self.resources.domain) => Err(ResourceError::OtherDevice("shared receive queue")),
            _ => Ok(()),
        }
    }

    /// The requested parameters of the connection.
    fn params(&self, core: &QueuePairCore) -> ConnectParams {
        let active = core.device().port().active_mtu;
        let mtu = self.mtu.map_or(active, |mtu| mtu.min(active));
        ConnectParams { mtu, read_depth: self.read_depth, retry: self.retry }
    }

    /// Our address. A queue pair that is connected by address only needs none.
    fn own_gid(&self) -> Result<Gid, ResourceError> {
        let device = &self.resources.device;
        let unneeded = || device.capabilities().by_address_only.then(Gid::default);
        let known = self.gid.or_else(|| device.default_gid()).or_else(unneeded);
        known.ok_or(ResourceError::NoAddress("IP"))
    }
}

impl<S: Connected> QpBuilder<S> {
    /// Takes receive buffers from a queue shared with others, and reports receives to that
    /// queue's completion queue.
    pub fn shared_receive_queue(mut self, srq: &SharedReceiveQueue) -> QpBuilder<S> {
        self.resources.recv_cq = srq.completion_queue().clone();
        self.resources.srq = Some(srq.clone());
        self
    }

    /// The operations that the peer may use on this queue pair, if its key grants them too: READ, WRITE,
    /// atomics and FLUSH if not set.
    pub fn remote_access(mut self, access: Access) -> QpBuilder<S> {
        self.access = access;
        self
    }

    /// Payload per packet at most: what the interface allows if not set. The connection
    /// uses the smaller of the two ends'.
    pub fn mtu(mut self, mtu: transport::Mtu) -> QpBuilder<S> {
        self.mtu = Some(mtu);
        self
    }

    /// Makes the queue pair. Receives may be posted at once; the rest has to wait for the
    /// [connection](Unconnected::connect).
    ///
    /// # Errors
    /// If a size is beyond the device's [limits](crate::Device::limits), or something belongs
    /// to another device.
    pub fn build(mut self) -> Result<Unconnected<S>, ResourceError> {
        self.check()?;
        let gid = self.own_gid()?;
        let core = QueuePairCore::new(&self.resources, S::TYPE)?;
        let attr = QpAttr { state: QpState::Init, access: self.access, ..QpAttr::default() };
        let mask = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
        core.modify(&attr, mask)?;
        let params = self.params(&core);
        Ok(Unconnected::new(core, params, gid, self.gid.is_some()))
    }
}

impl QpBuilder<Rc> {
    /// Sets the limits after which the connection gives up.
    pub fn retry(mut self, retry: Retry) -> QpBuilder<Rc> {
        self.retry = retry;
        self
    }

    /// READs and atomics in flight at the same time, in each direction: 16 if not set. The
    /// connection uses the smaller of the two ends'.
    pub fn read_depth(mut self, requests: u8) -> QpBuilder<Rc> {
        self.read_depth = requests;
        self
    }
}

/// The Q_Key if none is set: that of `rdma_cm` programs (`RDMA_UDP_QKEY`), so that members of a
/// multicast group understand each other.
const DEFAULT_QKEY: u32 = 0x0123_4567;

impl QpBuilder<Ud> {
    /// The key that senders need: a fixed, well-known one if not set.
    pub fn qkey(mut self, qkey: QKey) -> QpBuilder<Ud> {
        self.qkey = qkey;
        self
    }

    /// Makes the endpoint, ready to send and receive.
    ///
    /// # Errors
    /// As for connected queue pairs.
    pub fn build(mut self) -> Result<UdQueuePair, ResourceError> {
        self.check()?;
        // One entry for the GRH.
        self.resources.caps.max_recv_sge += 1;
        let gid = self.own_gid()?;
        let core = QueuePairCore::new(&self.resources, Ud::TYPE)?;
        UdQueuePair::start(core, gid, self.qkey)
    }
}

/// The rights of peers that a device knows, persistence apart.
fn all_rights(device: &Device) -> Access {
    let mut access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    access.set(Access::FLUSH_GLOBAL, device.capabilities().flush);
    access.set(Access::REMOTE_CALL, device.capabilities().calls);
    access
}
