//! SIDR_REQ and SIDR_REP: finding the UD queue pair that serves a service id (IB specification 12.11).

use super::body::{BODY_LEN, Body};
use crate::bytes::{array_at, put, put_u24, u16_at, u24_at, u32_at, u64_at};
use crate::id::{PKey, QKey, Qpn};

/// Asks for the queue pair that serves a service id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrReq {
    /// Chosen by the sender, repeated in the response.
    pub request_id: u32,
    /// Partition.
    pub pkey: PKey,
    /// The service that the sender wants to reach.
    pub service_id: u64,
    /// The consumer's data.
    pub private_data: [u8; SidrReq::PRIVATE_LEN],
}

/// Status codes of a SIDR_REP (IB specification 12.11.2.2).
pub mod sidr_status {
    /// The queue pair is valid.
    pub const VALID: u8 = 0;
    /// No process offers this service.
    pub const UNSUPPORTED: u8 = 1;
    /// The consumer refuses.
    pub const REJECTED: u8 = 2;
    /// No queue pair is available.
    pub const NO_QP: u8 = 3;
    /// Another port or host serves the service id.
    pub const REDIRECT: u8 = 4;
    /// The version is not supported.
    pub const UNSUPPORTED_VERSION: u8 = 5;
}

/// The response to a SIDR_REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrRep {
    /// The id of the request.
    pub request_id: u32,
    /// See [`sidr_status`].
    pub status: u8,
    /// Valid bytes of the additional information. A peer may claim more than the field holds.
    pub info_len: u8,
    /// Vendor id of the enhanced connection establishment (ECE), 24 bits; zero: none.
    pub vendor_id: u32,
    /// The queue pair that serves.
    pub qpn: Qpn,
    /// The service id of the request.
    pub service_id: u64,
    /// The queue pair's key.
    pub qkey: QKey,
    /// Additional information.
    pub info: [u8; SidrRep::INFO_LEN],
    /// The consumer's data.
    pub private_data: [u8; SidrRep::PRIVATE_LEN],
}

const REQ_PRIVATE: usize = 16;
const INFO: usize = 24;
const REP_PRIVATE: usize = INFO + SidrRep::INFO_LEN;

impl SidrReq {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - REQ_PRIVATE;

    /// Reads every field.
    pub fn decode(bytes: &Body) -> SidrReq {
        SidrReq {
            request_id: u32_at(bytes, 0),
            pkey: PKey(u16_at(bytes, 4)),
            service_id: u64_at(bytes, 8),
            private_data: array_at(bytes, REQ_PRIVATE),
        }
    }

    /// Writes every field.
    pub fn encode(&self) -> Body {
        let mut bytes = [0; BODY_LEN];
        put(&mut bytes, 0, self.request_id.to_be_bytes());
        put(&mut bytes, 4, self.pkey.0.to_be_bytes());
        put(&mut bytes, 8, self.service_id.to_be_bytes());
        put(&mut bytes, REQ_PRIVATE, self.private_data);
        bytes
    }
}

impl SidrRep {
    /// Bytes of additional information.
    pub const INFO_LEN: usize = 72;
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - REP_PRIVATE;

    /// Reads every field.
    pub fn decode(bytes: &Body) -> SidrRep {
        SidrRep {
            request_id: u32_at(bytes, 0),
            status: bytes[4],
            info_len: bytes[5],
            vendor_id: u32::from_be_bytes([0, bytes[6], bytes[7], bytes[11]]),
            qpn: Qpn::new(u24_at(bytes, 8)),
            service_id: u64_at(bytes, 12),
            qkey: QKey(u32_at(bytes, 20)),
            info: array_at(bytes, INFO),
            private_data: array_at(bytes, REP_PRIVATE),
        }
    }

    /// Writes every field.
    pub fn encode(&self) -> Body {
        let mut bytes = [0; BODY_LEN];
        let [_, vendor_high, vendor_middle, vendor_low] = self.vendor_id.to_be_bytes();
        put(&mut bytes, 0, self.request_id.to_be_bytes());
        bytes[4] = self.status;
        bytes[5] = self.info_len;
        bytes[6] = vendor_high;
        bytes[7] = vendor_middle;
        put_u24(&mut bytes, 8, self.qpn.get());
        bytes[11] = vendor_low;
        put(&mut bytes, 12, self.service_id.to_be_bytes());
        put(&mut bytes, 20, self.qkey.0.to_be_bytes());
        put(&mut bytes, INFO, self.info);
        put(&mut bytes, REP_PRIVATE, self.private_data);
        bytes
    }
}
