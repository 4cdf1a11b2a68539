//! The information that two queue pairs exchange before they connect.

use std::fmt;

use transport::{Mtu, QpType};
use wire::{Gid, Psn, Qpn};

use crate::error::ConnectError;

/// Everything that the peer of a queue pair needs to connect to it.
///
/// It travels as [bytes](ConnectionInfo::to_bytes), by any means. Programs that
/// [connect by address](crate::connect) need none of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionInfo {
    pub(crate) service: QpType,
    pub(crate) qpn: Qpn,
    pub(crate) gid: Gid,
    pub(crate) first_psn: Psn,
    pub(crate) mtu: Mtu,
    pub(crate) read_depth: u8,
}

impl ConnectionInfo {
    /// Length of the byte form.
    pub const ENCODED_BYTES: usize = 28;

    /// The version of the byte form, its first byte.
    const VERSION: u8 = 1;

    /// The service.
    pub fn service(&self) -> QpType {
        self.service
    }

    /// The queue pair's number.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The address of its device.
    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// The PSN of the first packet that it will send.
    pub fn first_psn(&self) -> Psn {
        self.first_psn
    }

    /// The largest path MTU that it can use.
    pub fn mtu(&self) -> Mtu {
        self.mtu
    }

    /// READs and atomics that it serves at the same time.
    pub fn read_depth(&self) -> u8 {
        self.read_depth
    }

    /// The byte form, with numbers big-endian.
    ///
    /// ```text
    ///  0        1        2    3           4    8    12   28
    ///  version  service  MTU  read depth  QPN  PSN  GID
    /// ```
    pub fn to_bytes(&self) -> [u8; ConnectionInfo::ENCODED_BYTES] {
        let mut bytes = [0; ConnectionInfo::ENCODED_BYTES];
        bytes[0] = ConnectionInfo::VERSION;
        bytes[1] = self.service as u8;
        bytes[2] = self.mtu as u8;
        bytes[3] = self.read_depth;
        bytes[4..8].copy_from_slice(&self.qpn.get().to_be_bytes());
        bytes[8..12].copy_from_slice(&self.first_psn.get().to_be_bytes());
        bytes[12..].copy_from_slice(&self.gid.0);
        bytes
    }

    /// Reads the byte form; everything in it is checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<ConnectionInfo, ConnectError> {
        use ConnectError::Malformed;
        let bytes: &[u8; ConnectionInfo::ENCODED_BYTES] =
            bytes.try_into().map_err(|_| Malformed("connection information has 28 bytes"))?;
        if bytes[0] != ConnectionInfo::VERSION {
            return Err(Malformed("its version is not 1"));
        }
        let services = [QpType::Rc, QpType::Uc];
        let service = services.into_iter().find(|s| *s as u8 == bytes[1]);
        let mtu = Mtu::ALL.into_iter().find(|m| *m as u8 == bytes[2]);
        let mut gid = Gid::default();
        gid.0.copy_from_slice(&bytes[12..]);
        if gid.is_multicast() || gid.ip().is_unspecified() {
            return Err(Malformed("its GID is not the address of a device"));
        }
        Ok(ConnectionInfo {
            service: service.ok_or(Malformed("its service is neither RC nor UC"))?,
            mtu: mtu.ok_or(Malformed("its MTU is none of the five"))?,
            read_depth: bytes[3],
            qpn: Qpn::new(number(bytes, 4).ok_or(Malformed("its QPN exceeds 24 bits"))?),
            first_psn: Psn::new(number(bytes, 8).ok_or(Malformed("its PSN exceeds 24 bits"))?),
            gid,
        })
    }
}

/// A number of 24 bits in four bytes.
fn number(bytes: &[u8; ConnectionInfo::ENCODED_BYTES], at: usize) -> Option<u32> {
    let value = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    (value < 1 << 24).then_some(value)
}

impl fmt::Debug for ConnectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConnectionInfo { service, qpn, gid, mtu, .. } = self;
        write!(f, "ConnectionInfo({service:?} {qpn} at {}, MTU {})", gid.ip(), mtu.bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn info() -> ConnectionInfo {
        ConnectionInfo {
            service: QpType::Rc,
            qpn: Qpn::new(0x03_0011),
            gid: IpAddr::from([192, 0, 2, 1]).into(),
            first_psn: Psn::new(0xff_fffe),
            mtu: Mtu::B1024,
            read_depth: 16,
        }
    }

    #[test]
    fn bytes_and_back() {
        let bytes = info().to_bytes();
        assert_eq!(bytes[..12], [1, 2, 3, 16, 0, 3, 0, 0x11, 0, 0xff, 0xff, 0xfe]);
        assert_eq!(ConnectionInfo::from_bytes(&bytes).unwrap(), info());
    }

    #[test]
    fn every_field_is_checked() {
        let refused = |at: usize, value: u8| {
            let mut bytes = info().to_bytes();
            bytes[at] = value;
            ConnectionInfo::from_bytes(&bytes).unwrap_err().to_string()
        };
        for (at, value, word) in [(0, 2, "version"), (1, 4, "service"), (2, 0, "MTU"), (2, 6, "MTU")] {
            assert!(refused(at, value).contains(word), "byte {at}");
        }
        assert!(refused(4, 1).contains("QPN") && refused(8, 1).contains("PSN"));
        assert!(refused(24, 239).contains("GID"));
        for len in [0, 27, 29] {
            assert!(ConnectionInfo::from_bytes(&vec![1; len]).is_err());
        }
        assert!(ConnectionInfo::from_bytes(&[[1, 2, 3, 1].as_slice(), &[0; 24]].concat()).is_err());
    }
}
