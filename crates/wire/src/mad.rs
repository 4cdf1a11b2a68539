//! Management datagrams (MADs) of the connection manager: class 0x07, 256 bytes to QP1
//! (IB specification volume 1, 13.4.2 and 12.6 to 12.11).
//!
//! ```text
//!  byte 0       1       2         3        4        8             16          18    20         24
//!  | base ver | class | version | method | status | transaction | attribute | 0 | modifier | message |
//!      1         7        2         3       4 bytes      8            2        2       4        232
//! ```
//!
//! [`decode`] and [`encode`] translate between the bytes and a [`MadHeader`] with a [`Message`];
//! every message is a plain value that holds all of its fields as the wire has them: codes stay
//! codes, and private data has its whole fixed length. Reserved bits are ignored and sent as zero.
//! [`packet`] wraps a MAD in its BTH and DETH.
//!
//! What to do with a message is not known here.

mod bits;
mod disconnect;
mod lap;
mod mra;
pub mod packet;
mod path;
mod reject;
mod rep;
mod req;
mod sidr;
#[cfg(test)]
mod tests;

pub use disconnect::{Drep, Dreq, Rtu};
pub use lap::{Apr, Lap, apr_status};
pub use mra::{About, Mra};
pub use path::PathFields;
pub use reject::{Rej, Rejected, reason};
pub use rep::Rep;
pub use req::{Req, Transport};
pub use sidr::{SidrRep, SidrReq, sidr_status};

use crate::bytes::{array_at, put, u16_at, u32_at, u64_at};

/// Bytes of a MAD, header included.
pub const MAD_LEN: usize = 256;
/// Bytes of a message after the header.
pub const BODY_LEN: usize = MAD_LEN - HEADER_LEN;
/// Bytes of the header.
pub const HEADER_LEN: usize = 24;

/// A message's bytes after the header.
pub type Body = [u8; BODY_LEN];

const BASE_VERSION: u8 = 1;
/// The management class of communication management.
const CLASS: u8 = 0x07;
const CLASS_VERSION: u8 = 2;
/// ComMgtSend: the one method of the class.
const METHOD_SEND: u8 = 0x03;

/// Which message a MAD carries (IB specification 12.6, table 99).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Attribute(pub u16);

impl Attribute {
    /// Request for communication.
    pub const REQ: Attribute = Attribute(0x0010);
    /// Message receipt acknowledgment.
    pub const MRA: Attribute = Attribute(0x0011);
    /// Reject.
    pub const REJ: Attribute = Attribute(0x0012);
    /// Reply to a request for communication.
    pub const REP: Attribute = Attribute(0x0013);
    /// Ready to use.
    pub const RTU: Attribute = Attribute(0x0014);
    /// Request for communication release.
    pub const DREQ: Attribute = Attribute(0x0015);
    /// Reply to it.
    pub const DREP: Attribute = Attribute(0x0016);
    /// Service id resolution request.
    pub const SIDR_REQ: Attribute = Attribute(0x0017);
    /// Service id resolution response.
    pub const SIDR_REP: Attribute = Attribute(0x0018);
    /// Load alternate path.
    pub const LAP: Attribute = Attribute(0x0019);
    /// Alternate path response.
    pub const APR: Attribute = Attribute(0x001a);
}

/// What of the header differs from message to message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MadHeader {
    /// Status, zero in requests.
    pub status: u16,
    /// Class specific, zero.
    pub class_specific: u16,
    /// The same in a request and in what answers it.
    pub transaction_id: u64,
    /// Attribute modifier. Linux carries the options of an enhanced connection establishment (ECE) in it.
    pub modifier: u32,
}

/// A message of the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Message {
    Req(Req),
    Mra(Mra),
    Rej(Rej),
    Rep(Rep),
    Rtu(Rtu),
    Dreq(Dreq),
    Drep(Drep),
    SidrReq(SidrReq),
    SidrRep(SidrRep),
    Lap(Lap),
    Apr(Apr),
}

/// Why a MAD is none of the connection manager's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum MadError {
    /// Base version, class or class version is another.
    #[error("base version {base_version}, class {class:#04x} version {class_version} is not communication management")]
    Class {
        /// The base version.
        base_version: u8,
        /// The management class.
        class: u8,
        /// Its version.
        class_version: u8,
    },
    /// The method is not "send".
    #[error("method {0:#04x} is unknown to communication management")]
    Method(u8),
    /// No message has this attribute.
    #[error("attribute {0:#06x} is unknown to communication management")]
    Attribute(u16),
}

/// Checks class and method and reads the message.
///
/// # Errors
/// The MAD belongs to another class or the class knows no such method or attribute.
pub fn decode(mad: &[u8; MAD_LEN]) -> Result<(MadHeader, Message), MadError> {
    let attribute = attribute(mad)?;
    let header = MadHeader {
        status: u16_at(mad, 4),
        class_specific: u16_at(mad, 6),
        transaction_id: u64_at(mad, 8),
        modifier: u32_at(mad, 20),
    };
    let body: Body = array_at(mad, HEADER_LEN);
    let message = match attribute {
        Attribute::REQ => Message::Req(Req::decode(&body)),
        Attribute::MRA => Message::Mra(Mra::decode(&body)),
        Attribute::REJ => Message::Rej(Rej::decode(&body)),
        Attribute::REP => Message::Rep(Rep::decode(&body)),
        Attribute::RTU => Message::Rtu(Rtu::decode(&body)),
        Attribute::DREQ => Message::Dreq(Dreq::decode(&body)),
        Attribute::DREP => Message::Drep(Drep::decode(&body)),
        Attribute::SIDR_REQ => Message::SidrReq(SidrReq::decode(&body)),
        Attribute::SIDR_REP => Message::SidrRep(SidrRep::decode(&body)),
        Attribute::LAP => Message::Lap(Lap::decode(&body)),
        Attribute::APR => Message::Apr(Apr::decode(&body)),
        Attribute(unknown) => return Err(MadError::Attribute(unknown)),
    };
    Ok((header, message))
}

/// Checks class and method, and tells the attribute, which may be unknown.
///
/// # Errors
/// The MAD belongs to another class, or its method is not "send".
pub fn attribute(mad: &[u8; MAD_LEN]) -> Result<Attribute, MadError> {
    let [base_version, class, class_version, method] = array_at(mad, 0);
    if (base_version, class, class_version) != (BASE_VERSION, CLASS, CLASS_VERSION) {
        return Err(MadError::Class { base_version, class, class_version });
    }
    if method != METHOD_SEND {
        return Err(MadError::Method(method));
    }
    Ok(Attribute(u16_at(mad, 16)))
}

/// Writes a whole MAD.
pub fn encode(header: &MadHeader, message: &Message) -> [u8; MAD_LEN] {
    let mut mad = [0; MAD_LEN];
    put(&mut mad, 0, [BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND]);
    put(&mut mad, 4, header.status.to_be_bytes());
    put(&mut mad, 6, header.class_specific.to_be_bytes());
    put(&mut mad, 8, header.transaction_id.to_be_bytes());
    put(&mut mad, 16, message.attribute().0.to_be_bytes());
    put(&mut mad, 20, header.modifier.to_be_bytes());
    put(&mut mad, HEADER_LEN, message.body());
    mad
}

impl Message {
    /// Its attribute.
    pub fn attribute(&self) -> Attribute {
        match self {
            Message::Req(_) => Attribute::REQ,
            Message::Mra(_) => Attribute::MRA,
            Message::Rej(_) => Attribute::REJ,
            Message::Rep(_) => Attribute::REP,
            Message::Rtu(_) => Attribute::RTU,
            Message::Dreq(_) => Attribute::DREQ,
            Message::Drep(_) => Attribute::DREP,
            Message::SidrReq(_) => Attribute::SIDR_REQ,
            Message::SidrRep(_) => Attribute::SIDR_REP,
            Message::Lap(_) => Attribute::LAP,
            Message::Apr(_) => Attribute::APR,
        }
    }

    /// The communication id by which its receiver knows the connection: for a SIDR_REP the request
    /// id. `None` for REQ and SIDR_REQ, which open something new.
    pub fn receiver_id(&self) -> Option<u32> {
        match self {
            Message::Req(_) | Message::SidrReq(_) => None,
            Message::Mra(m) => Some(m.remote_id),
            Message::Rej(m) => Some(m.remote_id),
            Message::Rep(m) => Some(m.remote_id),
            Message::Rtu(m) => Some(m.remote_id),
            Message::Dreq(m) => Some(m.remote_id),
            Message::Drep(m) => Some(m.remote_id),
            Message::SidrRep(m) => Some(m.request_id),
            Message::Lap(m) => Some(m.remote_id),
            Message::Apr(m) => Some(m.remote_id),
        }
    }

    fn body(&self) -> Body {
        match self {
            Message::Req(m) => m.encode(),
            Message::Mra(m) => m.encode(),
            Message::Rej(m) => m.encode(),
            Message::Rep(m) => m.encode(),
            Message::Rtu(m) => m.encode(),
            Message::Dreq(m) => m.encode(),
            Message::Drep(m) => m.encode(),
            Message::SidrReq(m) => m.encode(),
            Message::SidrRep(m) => m.encode(),
            Message::Lap(m) => m.encode(),
            Message::Apr(m) => m.encode(),
        }
    }
}
