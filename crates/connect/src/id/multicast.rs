//! Multicast groups.

use std::net::IpAddr;

use transport::AddressVector;
use wire::{Gid, QKey, Qpn};

use super::Id;
use crate::error::Error;
use crate::event::{DatagramParam, EventKind, Param};
use crate::space::PortSpace;

/// The key of datagrams that are set up here, `RDMA_UDP_QKEY`.
pub(crate) const UDP_QKEY: QKey = QKey(0x0123_4567);

impl Id {
    /// Joins a group: [`MulticastJoin`](EventKind::MulticastJoin) says where to send. There is no
    /// subnet manager on Ethernet to ask; the queue pair's attaching joins the group of the
    /// network. `rdma_join_multicast(3)`.
    ///
    /// # Errors
    /// If the address is no group's, or the id not bound to a device.
    pub fn join(&self, group: IpAddr, qkey: Option<QKey>) -> Result<(), Error> {
        self.change(|state, key| {
            if !group.is_multicast() {
                return Err(Error::Invalid("that address is no multicast group's"));
            }
            let entry = state.entry(key)?;
            if !entry.is_datagram() || !matches!(entry.space, PortSpace::Udp | PortSpace::Ipoib | PortSpace::Ib) {
                return Err(Error::Invalid("groups are for datagrams"));
            }
            let Some(binding) = &entry.binding else { return Err(Error::State("it is bound to no device")) };
            let mut address = AddressVector::new(binding.gid, Gid::from(group));
            address.traffic_class = entry.tos;
            let qkey = qkey.unwrap_or(UDP_QKEY);
            let param = DatagramParam { private_data: Vec::new(), address, qpn: Qpn::MULTICAST, qkey };
            state.tell(key, EventKind::MulticastJoin, 0, Param::Datagram(param));
            Ok(())
        })
    }
    /// Leaves a group: a [`MulticastJoin`](EventKind::MulticastJoin) that nobody has fetched is dropped.
    /// `rdma_leave_multicast(3)`.
    ///
    /// # Errors
    /// [`Error::State`] after [`destroy`](Id::destroy).
    pub fn leave(&self, group: IpAddr) -> Result<(), Error> {
        let group = Gid::from(group);
        self.change(|state, key| {
            let queue = state.entry(key)?.queue.clone();
            // They hold no ids: they may be dropped here.
            queue.take(|event| event.owner == key && event.is_join_of(group));
            Ok(())
        })
    }
}
