//! The record of a device, which the hub sends to its clients.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use wire::Gid;

/// A 64-bit globally unique identifier, of a node or of a port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Guid(pub u64);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (self.0 >> shift) & 0xffff);
        write!(f, "{a:04x}:{b:04x}:{c:04x}:{d:04x}")
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({self})")
    }
}

/// One RDMA device: a network interface seen through Longarm. It has one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRecord {
    /// Its name, `la_` and the interface's name.
    pub name: String,
    /// The network interface.
    pub interface: String,
    /// The network interface's index.
    pub interface_index: u32,
    /// Identifies the machine or container; the same for all of its devices.
    #[serde(with = "guid_text")]
    pub node_guid: Guid,
    /// Identifies this device's port; stable across runs.
    #[serde(with = "guid_text")]
    pub port_guid: Guid,
    /// The interface's MTU: the largest IP packet.
    pub mtu_bytes: u32,
    /// Whether packets can flow: the port is active.
    pub link_up: bool,
    /// The link's speed; 0 if unknown.
    pub speed_mbps: u32,
    /// Whether it is the loop-back interface.
    pub loopback: bool,
    /// Whether this is the device for programs that name none.
    pub preferred: bool,
    /// The GID table. An index keeps its GID for as long as the address exists. A removed
    /// address leaves a hole ([`Gid::default`], all zero) that a new one may fill.
    #[serde(with = "gid_texts")]
    pub gids: Vec<Gid>,
}

impl DeviceRecord {
    /// The GIDs that exist, with their index.
    pub fn valid_gids(&self) -> impl Iterator<Item = (usize, Gid)> + '_ {
        self.gids.iter().copied().enumerate().filter(|(_, gid)| *gid != Gid::default())
    }
}

/// The device for programs that name none: the preferred one, else the first.
pub fn preferred(devices: &[DeviceRecord]) -> Option<&DeviceRecord> {
    devices.iter().find(|device| device.preferred).or(devices.first())
}

/// GUIDs as text, since a JSON number does not hold 64 bits everywhere.
mod guid_text {
    use super::Guid;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(guid: &Guid, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(guid)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Guid, D::Error> {
        let text = String::deserialize(from)?;
        super::parse_guid(&text).ok_or_else(|| D::Error::custom("not a GUID"))
    }
}

/// Reads what [`Guid`]'s `Display` writes.
fn parse_guid(text: &str) -> Option<Guid> {
    let mut guid = 0u64;
    let mut groups = 0;
    for group in text.split(':') {
        let valid = group.len() == 4 && group.bytes().all(|b| b.is_ascii_hexdigit());
        if !valid || groups == 4 {
            return None;
        }
        guid = guid << 16 | u64::from(u16::from_str_radix(group, 16).ok()?);
        groups += 1;
    }
    (groups == 4).then_some(Guid(guid))
}

/// GIDs as IPv6 addresses.
mod gid_texts {
    use super::{Gid, IpAddr, Ipv6Addr};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(gids: &[Gid], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(gids.iter().map(|gid| Ipv6Addr::from(gid.0)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Gid>, D::Error> {
        let addresses = Vec::<Ipv6Addr>::deserialize(from)?;
        Ok(addresses.into_iter().map(|a| Gid::from(IpAddr::V6(a))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> DeviceRecord {
        DeviceRecord {
            name: "la_eth0".into(),
            interface: "eth0".into(),
            interface_index: 4,
            node_guid: Guid(0xfedc_ba98_7654_3210),
            port_guid: Guid(1),
            mtu_bytes: 1500,
            link_up: true,
            speed_mbps: 0,
            loopback: false,
            preferred: false,
            gids: vec![
                Gid::from(IpAddr::from([192, 0, 2, 1])),
                Gid::default(),
                Gid::from("fe80::1".parse::<IpAddr>().unwrap()),
            ],
        }
    }

    #[test]
    fn a_record_survives_its_text() {
        let text = serde_json::to_string(&record()).unwrap();
        assert!(text.contains(r#""node_guid":"fedc:ba98:7654:3210""#), "{text}");
        assert!(text.contains(r#""::ffff:192.0.2.1","::","fe80::1""#), "{text}");
        assert_eq!(serde_json::from_str::<DeviceRecord>(&text).unwrap(), record());
    }

    #[test]
    fn holes_in_the_gid_table_are_no_gids() {
        let indices: Vec<_> = record().valid_gids().map(|(index, _)| index).collect();
        assert_eq!(indices, [0, 2]);
    }

    #[test]
    fn only_whole_guids_are_read() {
        assert_eq!(parse_guid("0000:0000:0000:002a"), Some(Guid(42)));
        for text in ["", "1", "0:0:0:0", "0000:0000:0000", "0000:0000:0000:0000:0000", "+000:0000:0000:0000"] {
            assert_eq!(parse_guid(text), None, "{text:?}");
        }
    }

    #[test]
    fn without_a_preferred_device_it_is_the_first() {
        let mut devices = vec![record(), DeviceRecord { name: "la_lo".into(), ..record() }];
        assert_eq!(preferred(&devices).unwrap().name, "la_eth0");
        devices[1].preferred = true;
        assert_eq!(preferred(&devices).unwrap().name, "la_lo");
        assert_eq!(preferred(&[]), None);
    }
}
