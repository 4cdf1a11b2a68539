//! REQ: request for communication (IB specification 12.6.5).

use super::bits;
use super::body::{BODY_LEN, Body};
use super::path::PathFields;
use crate::bytes::{array_at, put, put_u24, u16_at, u24_at, u32_at, u64_at};
use crate::id::{PKey, Psn, Qpn};

/// Asks for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Req {
    /// The sender's communication id.
    pub local_id: u32,
    /// Vendor id of the enhanced connection establishment (ECE), 24 bits; zero: none.
    pub vendor_id: u32,
    /// The service that the sender wants to reach.
    pub service_id: u64,
    /// GUID of the sender's device.
    pub ca_guid: u64,
    /// For datagrams only.
    pub qkey: u32,
    /// The sender's queue pair.
    pub qpn: Qpn,
    /// Inbound READ and atomic operations that the sender accepts at a time.
    pub responder_resources: u8,
    /// For reliable datagrams only, 24 bits.
    pub eecn: u32,
    /// Outbound READ and atomic operations that the sender wants at a time.
    pub initiator_depth: u8,
    /// For reliable datagrams only, 24 bits.
    pub remote_eecn: u32,
    /// The longest time that the receiver may take to respond, 5 bits: 4.096 µs · 2^code.
    pub remote_response_timeout: u8,
    /// The kind of connection.
    pub transport: Transport,
    /// The sender has end-to-end flow control.
    pub flow_control: bool,
    /// First PSN that the receiver of this message shall send: the sender's receive queue begins with it.
    pub starting_psn: Psn,
    /// The longest time that the sender may take to respond, 5 bits: 4.096 µs · 2^code.
    pub local_response_timeout: u8,
    /// Retries after ACK timeouts, 3 bits.
    pub retry_count: u8,
    /// Partition.
    pub pkey: PKey,
    /// Path MTU code, 4 bits: 1 is 256 bytes, 5 is 4096.
    pub mtu: u8,
    /// For reliable datagrams only.
    pub rdc_exists: bool,
    /// Retries after RNR NAKs, 3 bits; 7: unlimited.
    pub rnr_retry_count: u8,
    /// Number of times that the sender repeats a CM message, 4 bits.
    pub max_cm_retries: u8,
    /// The sender's queue pair has a shared receive queue.
    pub srq: bool,
    /// The path of the connection.
    pub primary: PathFields,
    /// The path for migration; all zero: none.
    pub alternate: PathFields,
    /// The consumer's data.
    pub private_data: [u8; Req::PRIVATE_LEN],
}

/// The kind of connection: the transport service type (2 bits), and the extended type (3 bits),
/// which is valid if the first is 3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Transport {
    /// Transport service type.
    pub service: u8,
    /// Extended transport type.
    pub extended: u8,
}

impl Transport {
    /// Reliable connected.
    pub const RC: Transport = Transport { service: 0, extended: 0 };
    /// Unreliable connected.
    pub const UC: Transport = Transport { service: 1, extended: 0 };
    /// Extended reliable connected (Annex A14).
    pub const XRC: Transport = Transport { service: 3, extended: 1 };
}

const PRIMARY: usize = 52;
const ALTERNATE: usize = PRIMARY + PathFields::LEN;
const PRIVATE: usize = ALTERNATE + PathFields::LEN;

impl Req {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - PRIVATE;

    /// Reads every field.
    pub fn decode(bytes: &Body) -> Req {
        Req {
            local_id: u32_at(bytes, 0),
            vendor_id: u24_at(bytes, 5),
            service_id: u64_at(bytes, 8),
            ca_guid: u64_at(bytes, 16),
            qkey: u32_at(bytes, 28),
            qpn: Qpn::new(u24_at(bytes, 32)),
            responder_resources: bytes[35],
            eecn: u24_at(bytes, 36),
            initiator_depth: bytes[39],
            remote_eecn: u24_at(bytes, 40),
            remote_response_timeout: bits::get(bytes[43], 0, 5),
            transport: Transport { service: bits::get(bytes[43], 5, 2), extended: bits::get(bytes[51], 5, 3) },
            flow_control: bits::is_set(bytes[43], 7),
            starting_psn: Psn::new(u24_at(bytes, 44)),
            local_response_timeout: bits::get(bytes[47], 0, 5),
            retry_count: bits::get(bytes[47], 5, 3),
            pkey: PKey(u16_at(bytes, 48)),
            mtu: bits::get(bytes[50], 0, 4),
            rdc_exists: bits::is_set(bytes[50], 4),
            rnr_retry_count: bits::get(bytes[50], 5, 3),
            max_cm_retries: bits::get(bytes[51], 0, 4),
            srq: bits::is_set(bytes[51], 4),
            primary: PathFields::decode(&array_at(bytes, PRIMARY)),
            alternate: PathFields::decode(&array_at(bytes, ALTERNATE)),
            private_data: array_at(bytes, PRIVATE),
        }
    }

    /// Writes every field; fields of less than a byte keep their low bits only.
    pub fn encode(&self) -> Body {
        let mut bytes = [0; BODY_LEN];
        put(&mut bytes, 0, self.local_id.to_be_bytes());
        put_u24(&mut bytes, 5, self.vendor_id);
        put(&mut bytes, 8, self.service_id.to_be_bytes());
        put(&mut bytes, 16, self.ca_guid.to_be_bytes());
        put(&mut bytes, 28, self.qkey.to_be_bytes());
        put_u24(&mut bytes, 32, self.qpn.get());
        bytes[35] = self.responder_resources;
        put_u24(&mut bytes, 36, self.eecn);
        bytes[39] = self.initiator_depth;
        put_u24(&mut bytes, 40, self.remote_eecn);
        bytes[43] = bits::at(self.remote_response_timeout, 0, 5)
            | bits::at(self.transport.service, 5, 2)
            | bits::flag(self.flow_control, 7);
        put_u24(&mut bytes, 44, self.starting_psn.get());
        bytes[47] = bits::at(self.local_response_timeout, 0, 5) | bits::at(self.retry_count, 5, 3);
        put(&mut bytes, 48, self.pkey.0.to_be_bytes());
        bytes[50] = bits::at(self.mtu, 0, 4) | bits::flag(self.rdc_exists, 4) | bits::at(self.rnr_retry_count, 5, 3);
        bytes[51] =
            bits::at(self.max_cm_retries, 0, 4) | bits::flag(self.srq, 4) | bits::at(self.transport.extended, 5, 3);
        put(&mut bytes, PRIMARY, self.primary.encode());
        put(&mut bytes, ALTERNATE, self.alternate.encode());
        put(&mut bytes, PRIVATE, self.private_data);
        bytes
    }
}
