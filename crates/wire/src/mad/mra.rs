//! MRA: message receipt acknowledgment (IB specification 12.6.6).

use super::bits;
use super::body::{BODY_LEN, Body};
use crate::bytes::{array_at, put, u32_at};

/// The message that an MRA confirms, 2 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct About(pub u8);

impl About {
    /// A REQ.
    pub const REQ: About = About(0);
    /// A REP.
    pub const REP: About = About(1);
    /// A LAP.
    pub const LAP: About = About(2);
}

/// Confirms the receipt of a message whose response will take longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mra {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's communication id.
    pub remote_id: u32,
    /// The message that was received.
    pub about: About,
    /// The longest time that the response may take, 5 bits: 4.096 µs · 2^code.
    pub service_timeout: u8,
    /// The consumer's data.
    pub private_data: [u8; Mra::PRIVATE_LEN],
}

const PRIVATE: usize = 10;

impl Mra {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - PRIVATE;

    /// Reads every field.
    pub fn decode(bytes: &Body) -> Mra {
        Mra {
            local_id: u32_at(bytes, 0),
            remote_id: u32_at(bytes, 4),
            about: About(bits::get(bytes[8], 0, 2)),
            service_timeout: bits::get(bytes[9], 0, 5),
            private_data: array_at(bytes, PRIVATE),
        }
    }

    /// Writes every field; fields of less than a byte keep their low bits only.
    pub fn encode(&self) -> Body {
        let mut bytes = [0; BODY_LEN];
        put(&mut bytes, 0, self.local_id.to_be_bytes());
        put(&mut bytes, 4, self.remote_id.to_be_bytes());
        bytes[8] = bits::at(self.about.0, 0, 2);
        bytes[9] = bits::at(self.service_timeout, 0, 5);
        put(&mut bytes, PRIVATE, self.private_data);
        bytes
    }
}
