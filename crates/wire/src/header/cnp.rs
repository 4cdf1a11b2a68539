//! Congestion notification packet (Annex A17): a BTH with BECN set, then 16 reserved bytes.

/// What follows the BTH of a congestion notification packet: nothing but reserved bytes.
/// The receiver reads only the BTH.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cnp;

impl Cnp {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Ignores the reserved bytes.
    #[inline]
    pub fn decode(_reserved: &[u8; Cnp::LEN]) -> Cnp {
        Cnp
    }

    /// Writes the reserved bytes: zero.
    #[inline]
    pub fn encode(&self) -> [u8; Cnp::LEN] {
        [0; Cnp::LEN]
    }
}
