//! Address handles: where datagrams go.

use std::fmt;
use std::net::IpAddr;

use wire::{Gid, QKey, Qpn};

use crate::error::ConnectError;

/// The destination of a datagram: an endpoint, or every member of a multicast group.
///
/// Peers exchange it as bytes, or ask the connection manager for it: [`UdQueuePair::look_up`](crate::UdQueuePair::look_up).
///
/// ```
/// use longarm::{AddressHandle, QKey, Qpn};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ip: std::net::IpAddr = "192.0.2.7".parse()?;
/// let peer = AddressHandle::new(ip.into(), Qpn::new(0x11), QKey(0x77)).with_hop_limit(1);
/// assert_eq!(AddressHandle::from_bytes(&peer.to_bytes())?.qpn(), peer.qpn());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressHandle {
    gid: Gid,
    qpn: Qpn,
    qkey: QKey,
    hop_limit: u8,
    traffic_class: u8,
    flow_label: u32,
}

impl AddressHandle {
    /// Length of the byte form.
    pub const ENCODED_BYTES: usize = 24;

    /// The queue pair `qpn` at `gid`, which accepts senders with `qkey`.
    pub fn new(gid: Gid, qpn: Qpn, qkey: QKey) -> AddressHandle {
        AddressHandle { gid, qpn, qkey, hop_limit: 64, traffic_class: 0, flow_label: 0 }
    }

    /// All members of the multicast group `group` that joined it with `qkey`.
    pub fn multicast(group: IpAddr, qkey: QKey) -> AddressHandle {
        AddressHandle::new(group.into(), Qpn::MULTICAST, qkey)
    }

    /// The address.
    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// The queue pair.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The key that senders need.
    pub fn qkey(&self) -> QKey {
        self.qkey
    }

    /// Sets how many routers packets may pass: 64 if not set. For a multicast group 1 keeps
    /// them on the local network.
    #[must_use]
    pub fn with_hop_limit(self, hop_limit: u8) -> AddressHandle {
        AddressHandle { hop_limit, ..self }
    }

    /// Sets the IPv4 TOS or IPv6 traffic class.
    #[must_use]
    pub fn with_traffic_class(self, traffic_class: u8) -> AddressHandle {
        AddressHandle { traffic_class, ..self }
    }

    /// Sets the IPv6 flow label (20 bits), which also spreads flows over paths.
    #[must_use]
    pub fn with_flow_label(self, flow_label: u32) -> AddressHandle {
        AddressHandle { flow_label: flow_label & 0xf_ffff, ..self }
    }

    /// The byte form: GID, queue pair number, Q_Key; big-endian. The sender's other settings are
    /// not part of it.
    pub fn to_bytes(&self) -> [u8; AddressHandle::ENCODED_BYTES] {
        let mut bytes = [0; AddressHandle::ENCODED_BYTES];
        bytes[..16].copy_from_slice(&self.gid.0);
        bytes[16..20].copy_from_slice(&self.qpn.get().to_be_bytes());
        bytes[20..].copy_from_slice(&self.qkey.0.to_be_bytes());
        bytes
    }

    /// Reads the byte form. Fails if the length is wrong, or the number has more than 24 bits.
    pub fn from_bytes(bytes: &[u8]) -> Result<AddressHandle, ConnectError> {
        let length = ConnectError::Malformed("an address handle has 24 bytes");
        let bytes: &[u8; AddressHandle::ENCODED_BYTES] = bytes.try_into().map_err(|_| length)?;
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[..16]);
        let [qpn, qkey] = [16, 20].map(|at| {
            let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            u32::from_be_bytes(word)
        });
        if qpn != Qpn::new(qpn).get() {
            return Err(ConnectError::Malformed("a queue pair number has 24 bits"));
        }
        Ok(AddressHandle::new(Gid(gid), Qpn::new(qpn), QKey(qkey)))
    }

    /// The destination that the connection manager found.
    pub(crate) fn of_vector(vector: &transport::AddressVector, qpn: Qpn, qkey: QKey) -> AddressHandle {
        let handle = AddressHandle::new(vector.destination, qpn, qkey);
        AddressHandle {
            hop_limit: vector.hop_limit,
            traffic_class: vector.traffic_class,
            flow_label: vector.flow_label,
            ..handle
        }
    }

    pub(crate) fn vector(&self, source: Gid) -> transport::AddressVector {
        transport::AddressVector {
            flow_label: self.flow_label,
            hop_limit: self.hop_limit,
            traffic_class: self.traffic_class,
            ..transport::AddressVector::new(source, self.gid)
        }
    }
}

impl fmt::Debug for AddressHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AddressHandle({} at {})", self.qpn, self.gid.ip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        let gid = Gid::from(IpAddr::from([192, 0, 2, 7]));
        let handle = AddressHandle::new(gid, Qpn::new(0x12_3456), QKey(0x8001_0000));
        let bytes = handle.to_bytes();
        assert_eq!(bytes[10..16], [0xff, 0xff, 192, 0, 2, 7]);
        assert_eq!(bytes[16..20], [0, 0x12, 0x34, 0x56]);
        assert_eq!(AddressHandle::from_bytes(&bytes).unwrap(), handle);
    }

    #[test]
    fn wrong_bytes_are_refused() {
        assert!(AddressHandle::from_bytes(&[0; 23]).is_err());
        let mut bytes = [0; 24];
        bytes[16] = 1;
        assert!(AddressHandle::from_bytes(&bytes).is_err());
    }
}
