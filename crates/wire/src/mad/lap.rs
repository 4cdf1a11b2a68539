//! LAP and APR: load an alternate path, and the response (IB specification 12.8.1 and 12.8.2).

use super::bits;
use super::body::{BODY_LEN, Body};
use crate::bytes::{array_at, put, put_u24, u16_at, u24_at, u32_at};
use crate::gid::Gid;
use crate::id::Qpn;

/// Offers an alternate path of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lap {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's communication id.
    pub remote_id: u32,
    /// The receiver's queue pair.
    pub remote_qpn: Qpn,
    /// The longest time that the receiver may take to respond, 5 bits: 4.096 µs · 2^code.
    pub remote_response_timeout: u8,
    /// LID of the sender's port.
    pub local_lid: u16,
    /// LID of the receiver's port.
    pub remote_lid: u16,
    /// GID of the sender's port.
    pub local_gid: Gid,
    /// GID of the receiver's port.
    pub remote_gid: Gid,
    /// 20 bits.
    pub flow_label: u32,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Static rate code, 6 bits.
    pub packet_rate: u8,
    /// Service level, 4 bits.
    pub service_level: u8,
    /// Packets need no router.
    pub subnet_local: bool,
    /// ACK timeout of the sender's queue pair, 5 bits.
    pub local_ack_timeout: u8,
    /// The consumer's data.
    pub private_data: [u8; Lap::PRIVATE_LEN],
}

/// Status codes of an APR (IB specification 12.8.2.1), as far as Longarm uses them.
pub mod apr_status {
    /// The path was loaded.
    pub const LOADED: u8 = 0;
    /// No connection has this communication id.
    pub const INVALID_COMM_ID: u8 = 1;
    /// Alternate paths are not supported.
    pub const UNSUPPORTED: u8 = 2;
    /// The path is refused.
    pub const REJECTED: u8 = 3;
}

/// The response to a LAP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Apr {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's communication id.
    pub remote_id: u32,
    /// Valid bytes of the additional information. A peer may claim more than the field holds.
    pub info_len: u8,
    /// See [`apr_status`].
    pub status: u8,
    /// Additional information.
    pub info: [u8; Apr::INFO_LEN],
    /// The consumer's data.
    pub private_data: [u8; Apr::PRIVATE_LEN],
}

const LAP_PRIVATE: usize = 64;
const INFO: usize = 12;
const APR_PRIVATE: usize = INFO + Apr::INFO_LEN;

impl Lap {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - LAP_PRIVATE;

    /// Reads every field.
    pub fn decode(bytes: &Body) -> Lap {
        Lap {
            local_id: u32_at(bytes, 0),
            remote_id: u32_at(bytes, 4),
            remote_qpn: Qpn::new(u24_at(bytes, 12)),
            remote_response_timeout: bits::get(bytes[15], 0, 5),
            local_lid: u16_at(bytes, 20),
            remote_lid: u16_at(bytes, 22),
            local_gid: Gid(array_at(bytes, 24)),
            remote_gid: Gid(array_at(bytes, 40)),
            flow_label: u32_at(bytes, 56) >> 12,
            traffic_class: bytes[59],
            hop_limit: bytes[60],
            packet_rate: bits::get(bytes[61], 2, 6),
            service_level: bits::get(bytes[62], 0, 4),
            subnet_local: bits::is_set(bytes[62], 4),
            local_ack_timeout: bits::get(bytes[63], 0, 5),
            private_data: array_at(bytes, LAP_PRIVATE),
        }
    }

    /// Writes every field; fields of less than a byte keep their low bits only.
    pub fn encode(&self) -> Body {
        let mut bytes = [0; BODY_LEN];
        put(&mut bytes, 0, self.local_id.to_be_bytes());
        put(&mut bytes, 4, self.remote_id.to_be_bytes());
        put_u24(&mut bytes, 12, self.remote_qpn.get());
        bytes[15] = bits::at(self.remote_response_timeout, 0, 5);
        put(&mut bytes, 20, self.local_lid.to_be_bytes());
        put(&mut bytes, 22, self.remote_lid.to_be_bytes());
        put(&mut bytes, 24, self.local_gid.0);
        put(&mut bytes, 40, self.remote_gid.0);
        put(&mut bytes, 56, (self.flow_label << 12).to_be_bytes());
        bytes[59] = self.traffic_class;
        bytes[60] = self.hop_limit;
        bytes[61] = bits::at(self.packet_rate, 2, 6);
        bytes[62] = bits::at(self.service_level, 0, 4) | bits::flag(self.subnet_local, 4);
        bytes[63] = bits::at(self.local_ack_timeout, 0, 5);
        put(&mut bytes, LAP_PRIVATE, self.private_data);
        bytes
    }
}

impl Apr {
    /// Bytes of additional information.
    pub const INFO_LEN: usize = 72;
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - APR_PRIVATE;

    /// Reads every field.
    pub fn decode(bytes: &Body) -> Apr {
        Apr {
            local_id: u32_at(bytes, 0),
            remote_id: u32_at(bytes, 4),
            info_len: bytes[8],
            status: bytes[9],
            info: array_at(bytes, INFO),
            private_data: array_at(bytes, APR_PRIVATE),
        }
    }

    /// Writes every field.
    pub fn encode(&self) -> Body {
        let mut bytes = [0; BODY_LEN];
        put(&mut bytes, 0, self.local_id.to_be_bytes());
        put(&mut bytes, 4, self.remote_id.to_be_bytes());
        bytes[8] = self.info_len;
        bytes[9] = self.status;
        put(&mut bytes, INFO, self.info);
        put(&mut bytes, APR_PRIVATE, self.private_data);
        bytes
    }
}
