//! RTU, DREQ and DREP: ready to use, and the two messages of a release
//! (IB specification 12.6.9 to 12.6.11).

use super::body::{BODY_LEN, Body};
use crate::bytes::{array_at, put, put_u24, u24_at, u32_at};
use crate::id::Qpn;

/// Confirms a REP: the connection is ready to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtu {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's communication id.
    pub remote_id: u32,
    /// The consumer's data.
    pub private_data: [u8; Rtu::PRIVATE_LEN],
}

/// Asks for a connection's release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dreq {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's communication id.
    pub remote_id: u32,
    /// The receiver's queue pair.
    pub remote_qpn: Qpn,
    /// The consumer's data.
    pub private_data: [u8; Dreq::PRIVATE_LEN],
}

/// Agrees to a connection's release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drep {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's communication id.
    pub remote_id: u32,
    /// The consumer's data.
    pub private_data: [u8; Drep::PRIVATE_LEN],
}

/// Offset of the private data in RTU and DREP.
const PRIVATE: usize = 8;
const DREQ_PRIVATE: usize = 12;

impl Rtu {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - PRIVATE;

    /// Reads every field.
    pub fn decode(bytes: &Body) -> Rtu {
        Rtu { local_id: u32_at(bytes, 0), remote_id: u32_at(bytes, 4), private_data: array_at(bytes, PRIVATE) }
    }

    /// Writes every field.
    pub fn encode(&self) -> Body {
        ids_and_private_data(self.local_id, self.remote_id, self.private_data)
    }
}

impl Dreq {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - DREQ_PRIVATE;

    /// Reads every field.
    pub fn decode(bytes: &Body) -> Dreq {
        Dreq {
            local_id: u32_at(bytes, 0),
            remote_id: u32_at(bytes, 4),
            remote_qpn: Qpn::new(u24_at(bytes, 8)),
            private_data: array_at(bytes, DREQ_PRIVATE),
        }
    }

    /// Writes every field.
    pub fn encode(&self) -> Body {
        let mut bytes = [0; BODY_LEN];
        put(&mut bytes, 0, self.local_id.to_be_bytes());
        put(&mut bytes, 4, self.remote_id.to_be_bytes());
        put_u24(&mut bytes, 8, self.remote_qpn.get());
        put(&mut bytes, DREQ_PRIVATE, self.private_data);
        bytes
    }
}

impl Drep {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - PRIVATE;

    /// Reads every field.
    pub fn decode(bytes: &Body) -> Drep {
        Drep { local_id: u32_at(bytes, 0), remote_id: u32_at(bytes, 4), private_data: array_at(bytes, PRIVATE) }
    }

    /// Writes every field.
    pub fn encode(&self) -> Body {
        ids_and_private_data(self.local_id, self.remote_id, self.private_data)
    }
}

fn ids_and_private_data(local_id: u32, remote_id: u32, private_data: [u8; BODY_LEN - PRIVATE]) -> Body {
    let mut bytes = [0; BODY_LEN];
    put(&mut bytes, 0, local_id.to_be_bytes());
    put(&mut bytes, 4, remote_id.to_be_bytes());
    put(&mut bytes, PRIVATE, private_data);
    bytes
}
