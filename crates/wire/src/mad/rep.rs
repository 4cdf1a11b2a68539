//! REP: reply to a request for communication (IB specification 12.6.8).

use super::bits;
use super::body::{BODY_LEN, Body};
use crate::bytes::{array_at, put, put_u24, u24_at, u32_at, u64_at};
use crate::id::{Psn, Qpn};

/// Agrees to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rep {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's communication id.
    pub remote_id: u32,
    /// For datagrams only.
    pub qkey: u32,
    /// The sender's queue pair.
    pub qpn: Qpn,
    /// For reliable datagrams only, 24 bits.
    pub eecn: u32,
    /// First PSN that the receiver of this message shall send: the sender's receive queue begins with it.
    pub starting_psn: Psn,
    /// Vendor id of the enhanced connection establishment (ECE), 24 bits; zero: none.
    pub vendor_id: u32,
    /// Inbound READ and atomic operations that the sender accepts at a time.
    pub responder_resources: u8,
    /// Outbound READ and atomic operations that the sender wants at a time.
    pub initiator_depth: u8,
    /// The longest time that the sender takes to acknowledge a packet, 5 bits: 4.096 µs · 2^code.
    pub target_ack_delay: u8,
    /// The fate of the alternate path, 2 bits; zero: accepted, or none was offered.
    pub failover_accepted: u8,
    /// The sender has end-to-end flow control.
    pub flow_control: bool,
    /// Retries after RNR NAKs, 3 bits; 7: unlimited.
    pub rnr_retry_count: u8,
    /// The sender's queue pair has a shared receive queue.
    pub srq: bool,
    /// GUID of the sender's device.
    pub ca_guid: u64,
    /// The consumer's data.
    pub private_data: [u8; Rep::PRIVATE_LEN],
}

const PRIVATE: usize = 36;

impl Rep {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = BODY_LEN - PRIVATE;

    /// Reads every field.
    pub fn decode(bytes: &Body) -> Rep {
        Rep {
            local_id: u32_at(bytes, 0),
            remote_id: u32_at(bytes, 4),
            qkey: u32_at(bytes, 8),
            qpn: Qpn::new(u24_at(bytes, 12)),
            eecn: u24_at(bytes, 16),
            starting_psn: Psn::new(u24_at(bytes, 20)),
            vendor_id: u32::from_be_bytes([0, bytes[15], bytes[19], bytes[23]]),
            responder_resources: bytes[24],
            initiator_depth: bytes[25],
            target_ack_delay: bits::get(bytes[26], 0, 5),
            failover_accepted: bits::get(bytes[26], 5, 2),
            flow_control: bits::is_set(bytes[26], 7),
            rnr_retry_count: bits::get(bytes[27], 0, 3),
            srq: bits::is_set(bytes[27], 3),
            ca_guid: u64_at(bytes, 28),
            private_data: array_at(bytes, PRIVATE),
        }
    }

    /// Writes every field; fields of less than a byte keep their low bits only.
    pub fn encode(&self) -> Body {
        let mut bytes = [0; BODY_LEN];
        let [_, vendor_high, vendor_middle, vendor_low] = self.vendor_id.to_be_bytes();
        put(&mut bytes, 0, self.local_id.to_be_bytes());
        put(&mut bytes, 4, self.remote_id.to_be_bytes());
        put(&mut bytes, 8, self.qkey.to_be_bytes());
        put_u24(&mut bytes, 12, self.qpn.get());
        bytes[15] = vendor_high;
        put_u24(&mut bytes, 16, self.eecn);
        bytes[19] = vendor_middle;
        put_u24(&mut bytes, 20, self.starting_psn.get());
        bytes[23] = vendor_low;
        bytes[24] = self.responder_resources;
        bytes[25] = self.initiator_depth;
        bytes[26] = bits::at(self.target_ack_delay, 0, 5)
            | bits::at(self.failover_accepted, 5, 2)
            | bits::flag(self.flow_control, 7);
        bytes[27] = bits::at(self.rnr_retry_count, 0, 3) | bits::flag(self.srq, 3);
        put(&mut bytes, 28, self.ca_guid.to_be_bytes());
        put(&mut bytes, PRIVATE, self.private_data);
        bytes
    }
}
