//! Congestion notification packet (Annex A17): a BTH with BECN set, then 16 reserved bytes.

use crate::header::Cookie;

/// What follows the BTH of a congestion notification packet: reserved bytes, which receivers ignore. To a peer that
/// shares a [`Cookie`] with us the first four are that cookie, so that nobody else can forge one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cnp {
    /// Zero where no cookie was agreed.
    pub cookie: Cookie,
}

impl Cnp {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Reads the cookie, and ignores the rest.
    #[inline]
    pub fn decode(reserved: &[u8; Cnp::LEN]) -> Cnp {
        let [a, b, c, d, ..] = *reserved;
        Cnp { cookie: Cookie::decode(&[a, b, c, d]) }
    }

    /// Writes the cookie, and zeros behind it.
    #[inline]
    pub fn encode(&self) -> [u8; Cnp::LEN] {
        let mut bytes = [0; Cnp::LEN];
        bytes[..Cookie::LEN].copy_from_slice(&self.cookie.encode());
        bytes
    }
}
