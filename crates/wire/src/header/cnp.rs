//! Congestion notification packet (Annex A17): a BTH with BECN set, then 16 reserved bytes.

use crate::header::Cookie;

/// The reserved bytes after the BTH of a congestion notification packet, which receivers ignore. Between peers
/// that share a [`Cookie`] the first four are that cookie, so that a third party cannot forge a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cnp {
    /// Zero if the peers share no cookie.
    pub cookie: Cookie,
}

impl Cnp {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Reads the cookie and ignores the rest.
    #[inline]
    pub fn decode(reserved: &[u8; Cnp::LEN]) -> Cnp {
        let [a, b, c, d, ..] = *reserved;
        Cnp { cookie: Cookie::decode(&[a, b, c, d]) }
    }

    /// Writes the cookie, followed by zeros.
    #[inline]
    pub fn encode(&self) -> [u8; Cnp::LEN] {
        let mut bytes = [0; Cnp::LEN];
        bytes[..Cookie::LEN].copy_from_slice(&self.cookie.encode());
        bytes
    }
}
