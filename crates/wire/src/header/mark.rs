//! Longarm's use of the reserved bits of the base transport header, and the cookie behind them.
//!
//! Two Longarm ends agree on selective retransmission in packets that are in sequence. The responder draws a
//! [`Cookie`] and sends it in an ACK ([`Opcode::ACKNOWLEDGE_COOKIE`](crate::Opcode::ACKNOWLEDGE_COOKIE)). Short
//! packets with opcodes of Longarm's own carry the whole cookie; every other packet carries its 13-bit [`Mark`].

use core::fmt;

/// The 13 reserved bits of the base transport header: 6 beside BECN, 7 beside AckReq.
///
/// ```text
///  byte 4: F B [12..7]    byte 8: A [6..0]
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mark(u16);

impl Mark {
    /// All bits zero, as the specification demands of a sender: no offer and no cookie.
    pub const NONE: Mark = Mark(0);
    /// In requests: the requester understands selective retransmission and has no cookie yet. It uses only the 7
    /// bits beside AckReq.
    pub const OFFER: Mark = Mark(0x53);
    /// Number of bits.
    pub const BITS: u32 = 13;
    /// Bits beside AckReq.
    const LOW_BITS: u32 = 7;
    const LOW: u16 = (1 << Mark::LOW_BITS) - 1;

    /// Joins the reserved bits of bytes 4 and 8.
    #[inline]
    pub(crate) const fn from_bytes(high: u8, low: u8) -> Mark {
        Mark(((high & 0x3f) as u16) << Mark::LOW_BITS | low as u16 & Mark::LOW)
    }

    /// The bits in byte 4.
    #[inline]
    pub(crate) const fn high(self) -> u8 {
        (self.0 >> Mark::LOW_BITS) as u8
    }

    /// The bits in byte 8.
    #[inline]
    pub(crate) const fn low(self) -> u8 {
        (self.0 & Mark::LOW) as u8
    }

    /// The mark with these bits; those beyond 13 are ignored.
    pub const fn from_bits(bits: u16) -> Mark {
        Mark(bits & ((1 << Mark::BITS) - 1))
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Mark::NONE => f.write_str("Mark(none)"),
            Mark::OFFER => f.write_str("Mark(offer)"),
            Mark(bits) => write!(f, "Mark({bits:#06x})"),
        }
    }
}

/// A random number that only the two ends of a connection know; the responder draws it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Cookie(pub u32);

impl Cookie {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Reads the number.
    #[inline]
    pub fn decode(bytes: &[u8; Cookie::LEN]) -> Cookie {
        Cookie(u32::from_be_bytes(*bytes))
    }

    /// Writes the number.
    #[inline]
    pub fn encode(&self) -> [u8; Cookie::LEN] {
        self.0.to_be_bytes()
    }

    /// The low bits of the cookie, for packets without room for all of it. One of the bits in byte 4 is always set,
    /// so that the mark is neither [`Mark::NONE`] nor [`Mark::OFFER`]. 8064 of the 8192 patterns are possible.
    pub const fn mark(self) -> Mark {
        let mark = Mark::from_bits(self.0 as u16);
        match mark.high() {
            0 => Mark(mark.0 | 1 << (Mark::BITS - 1)),
            _ => mark,
        }
    }
}

/// Hides the number: a cookie in a log would let its readers forge packets.
impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_cookie_is_neither_offer_nor_none() {
        let mut marks = std::collections::BTreeSet::new();
        for bits in 0..1 << Mark::BITS {
            let mark = Cookie(0xabcd_0000 | bits).mark();
            assert!(mark != Mark::NONE && mark != Mark::OFFER, "{bits:#x}");
            assert_eq!(Mark::from_bytes(mark.high(), mark.low()), mark);
            marks.insert(mark.0);
        }
        assert_eq!(marks.len(), 8064);
    }

    #[test]
    fn an_offer_uses_the_bits_beside_ack_req_only() {
        assert_eq!((Mark::OFFER.high(), Mark::OFFER.low()), (0, 0x53));
    }
}
