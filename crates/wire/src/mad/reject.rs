//! REJ: reject (IB specification 12.6.7).

use super::bits;
use super::body::{BODY_LEN, Body};
use crate::bytes::{array_at, put, u16_at, u32_at};

/// The message that a REJ refuses, 2 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rejected(pub u8);

impl Rejected {
    /// A REQ.
    pub const REQ: Rejected = Rejected(0);
    /// A REP.
    pub const REP: Rejected = Rejected(1);
    /// No message: the sender gave up waiting for one.
    pub const OTHER: Rejected = Rejected(2);
}

/// Reason codes of a REJ (IB specification 12.6.7.2), as far as Longarm uses them.
pub mod reason {
    /// No resources for a queue pair.
    pub const NO_QP: u16 = 1;
    /// No resources.
    pub const NO_RESOURCES: u16 = 3;
    /// A response did not come in time; the additional information is the sender's GUID.
    pub const TIMEOUT: u16 = 4;
    /// The request is not supported.
    pub const UNSUPPORTED: u16 = 5;
    /// No connection has this communication id.
    pub const INVALID_COMM_ID: u16 = 6;
    /// No process offers this service.
    pub const INVALID_SERVICE_ID: u16 = 8;
    /// The transport service type is not supported.
    pub const INVALID_TRANSPORT: u16 = 9;
    /// The queue pair belongs to an older connection of the sender of the REJ.
    pub const STALE_CONNECTION: u16 = 10;
    /// The path MTU is not supported.
    pub const INVALID_MTU: u16 = 26;
    /// The consumer rejected the connection; private data may give its reason.
    pub const CONSUMER: u16 = 28;
    /// The sender wants another version of the service id or private data.
    pub const VENDOR_OPTION: u16 = 35;
}

/// Refuses or abandons a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rej {
    /// The sender's communication id, zero if it has none.
    pub local_id: u32,
    /// The receiver's communication id, zero if the sender does not know it.
    pub remote_id: u32,
    /// The message that is refused.
    pub rejected: Rejected,
    /// Valid bytes of the additional information, 7 bits. A peer may claim more than the field holds.
    pub info_len: u8,
    /// The reason: see [`reason`].
    pub reason: u16,
    /// Additional reject information (ARI).
    pub info: [u8; Rej::INFO_LEN],
    /// The consumer's data.
    pub private_data: [u8; Rej::PRIVATE_LEN],
}

const INFO: usize = 12;
const PRIVATE: usize = INFO + Rej::INFO_LEN;

impl Rej {
    /// Bytes of additional reject information.
    pub const INFO_LEN: usize = 72;
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - PRIVATE;

    /// The valid part of the additional information.
    pub fn info(&self) -> &[u8] {
        &self.info[..usize::from(self.info_len).min(Rej::INFO_LEN)]
    }

    /// Reads every field.
    pub fn decode(bytes: &Body) -> Rej {
        Rej {
            local_id: u32_at(bytes, 0),
            remote_id: u32_at(bytes, 4),
            rejected: Rejected(bits::get(bytes[8], 0, 2)),
            info_len: bits::get(bytes[9], 0, 7),
            reason: u16_at(bytes, 10),
            info: array_at(bytes, INFO),
            private_data: array_at(bytes, PRIVATE),
        }
    }

    /// Writes every field; fields of less than a byte keep their low bits only.
    pub fn encode(&self) -> Body {
        let mut bytes = [0; BODY_LEN];
        put(&mut bytes, 0, self.local_id.to_be_bytes());
        put(&mut bytes, 4, self.remote_id.to_be_bytes());
        bytes[8] = bits::at(self.rejected.0, 0, 2);
        bytes[9] = bits::at(self.info_len, 0, 7);
        put(&mut bytes, 10, self.reason.to_be_bytes());
        put(&mut bytes, INFO, self.info);
        put(&mut bytes, PRIVATE, self.private_data);
        bytes
    }
}
