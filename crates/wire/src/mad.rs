//! Management datagrams (MADs) of the connection manager: class 0x07, 256 bytes to QP1
//! (IB specification volume 1, 13.4.2 and 12.6 to 12.11).
//!
//! ```text
//!  byte 0       1       2         3        4        8             16          18    20         24
//!  | base ver | class | version | method | status | transaction | attribute | 0 | modifier | message |
//!      1         7        2         3       4 bytes      8            2        2       4        232
//! ```
//!
//! [`decode`] and [`encode`] translate between the bytes and a [`MadHeader`] with a [`CmMessage`].
//! Every message is a plain value with all fields as they are on the wire: codes stay codes, and
//! private data has its whole fixed length. Receivers ignore reserved bits, senders clear them.
//! [`packet`] wraps a MAD in its BTH and DETH.
//!
//! The connection manager that acts on messages is not in this crate.

mod bits;
mod body;
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

pub use body::{BODY_LEN, Body, HEADER_LEN, MAD_LEN};
pub use disconnect::{Drep, Dreq, Rtu};
pub use lap::{Apr, Lap, apr_status};
pub use mra::{About, Mra};
pub use path::PathFields;
pub use reject::{Rej, Rejected, reason};
pub use rep::Rep;
pub use req::{Req, Transport};
pub use sidr::{SidrRep, SidrReq, sidr_status};

use crate::bytes::{array_at, put, u16_at, u32_at, u64_at};

const BASE_VERSION: u8 = 1;
/// The management class of communication management.
const CLASS: u8 = 0x07;
const CLASS_VERSION: u8 = 2;
/// ComMgtSend: the one method of the class.
const METHOD_SEND: u8 = 0x03;

/// The code of the message that a MAD carries (IB specification 12.6, table 99).
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
    /// Reply to a request for communication release.
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

/// The variable fields of the MAD header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MadHeader {
    /// Status, zero in requests.
    pub status: u16,
    /// Class specific, zero.
    pub class_specific: u16,
    /// A response repeats the id of its request.
    pub transaction_id: u64,
    /// Attribute modifier. Linux carries the options of an enhanced connection establishment (ECE) in it.
    pub modifier: u32,
}

/// A message of the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum CmMessage {
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

/// The reason why [`decode`] refuses a MAD.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum MadError {
    /// Base version, class or class version differs from communication management.
    #[error("base version {base_version}, class {class:#04x} version {class_version} is not communication management")]
    Class {
        /// The base version.
        base_version: u8,
        /// The management class.
        class: u8,
        /// The class version.
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
pub fn decode(mad: &[u8; MAD_LEN]) -> Result<(MadHeader, CmMessage), MadError> {
    let attribute = attribute(mad)?;
    let header = MadHeader {
        status: u16_at(mad, 4),
        class_specific: u16_at(mad, 6),
        transaction_id: u64_at(mad, 8),
        modifier: u32_at(mad, 20),
    };
    let body: Body = array_at(mad, HEADER_LEN);
    let message = match attribute {
        Attribute::REQ => CmMessage::Req(Req::decode(&body)),
        Attribute::MRA => CmMessage::Mra(Mra::decode(&body)),
        Attribute::REJ => CmMessage::Rej(Rej::decode(&body)),
        Attribute::REP => CmMessage::Rep(Rep::decode(&body)),
        Attribute::RTU => CmMessage::Rtu(Rtu::decode(&body)),
        Attribute::DREQ => CmMessage::Dreq(Dreq::decode(&body)),
        Attribute::DREP => CmMessage::Drep(Drep::decode(&body)),
        Attribute::SIDR_REQ => CmMessage::SidrReq(SidrReq::decode(&body)),
        Attribute::SIDR_REP => CmMessage::SidrRep(SidrRep::decode(&body)),
        Attribute::LAP => CmMessage::Lap(Lap::decode(&body)),
        Attribute::APR => CmMessage::Apr(Apr::decode(&body)),
        Attribute(unknown) => return Err(MadError::Attribute(unknown)),
    };
    Ok((header, message))
}

/// Checks class and method and returns the attribute, which may be unknown.
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

/// Writes a whole MAD, with reserved bytes zero.
pub fn encode(header: &MadHeader, message: &CmMessage) -> [u8; MAD_LEN] {
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

impl CmMessage {
    /// The message's attribute code.
    pub fn attribute(&self) -> Attribute {
        match self {
            CmMessage::Req(_) => Attribute::REQ,
            CmMessage::Mra(_) => Attribute::MRA,
            CmMessage::Rej(_) => Attribute::REJ,
            CmMessage::Rep(_) => Attribute::REP,
            CmMessage::Rtu(_) => Attribute::RTU,
            CmMessage::Dreq(_) => Attribute::DREQ,
            CmMessage::Drep(_) => Attribute::DREP,
            CmMessage::SidrReq(_) => Attribute::SIDR_REQ,
            CmMessage::SidrRep(_) => Attribute::SIDR_REP,
            CmMessage::Lap(_) => Attribute::LAP,
            CmMessage::Apr(_) => Attribute::APR,
        }
    }

    /// The receiver's communication id of the connection; for a SIDR_REP the request id.
    /// `None` for REQ and SIDR_REQ, which begin an exchange.
    pub fn receiver_id(&self) -> Option<u32> {
        match self {
            CmMessage::Req(_) | CmMessage::SidrReq(_) => None,
            CmMessage::Mra(m) => Some(m.remote_id),
            CmMessage::Rej(m) => Some(m.remote_id),
            CmMessage::Rep(m) => Some(m.remote_id),
            CmMessage::Rtu(m) => Some(m.remote_id),
            CmMessage::Dreq(m) => Some(m.remote_id),
            CmMessage::Drep(m) => Some(m.remote_id),
            CmMessage::SidrRep(m) => Some(m.request_id),
            CmMessage::Lap(m) => Some(m.remote_id),
            CmMessage::Apr(m) => Some(m.remote_id),
        }
    }

    fn body(&self) -> Body {
        match self {
            CmMessage::Req(m) => m.encode(),
            CmMessage::Mra(m) => m.encode(),
            CmMessage::Rej(m) => m.encode(),
            CmMessage::Rep(m) => m.encode(),
            CmMessage::Rtu(m) => m.encode(),
            CmMessage::Dreq(m) => m.encode(),
            CmMessage::Drep(m) => m.encode(),
            CmMessage::SidrReq(m) => m.encode(),
            CmMessage::SidrRep(m) => m.encode(),
            CmMessage::Lap(m) => m.encode(),
            CmMessage::Apr(m) => m.encode(),
        }
    }
}
