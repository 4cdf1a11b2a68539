//! The AETH syndrome: ACK, RNR NAK or NAK (IB specification 9.3).

use core::fmt;

use crate::credit::credit_count;

/// The first byte of an AETH.
///
/// ```text
///  bit 7   6 5    4 3 2 1 0
///  | 0 | kind | code |    kind 00: ACK, credit code    01: RNR NAK, timer code
///                         kind 10: reserved            11: NAK, NAK code
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Syndrome(pub u8);

/// The decoded form of a [`Syndrome`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyndromeKind {
    /// All packets up to this PSN arrived.
    Ack {
        /// Receive WQEs that the responder has posted; `None`: no end-to-end flow control.
        credits: Option<u32>,
    },
    /// No receive WQE is posted: the requester shall retry after a delay.
    RnrNak {
        /// The delay, as a code for [`rnr_timer`](crate::rnr_timer).
        timer: u8,
    },
    /// The request failed.
    Nak(NakCode),
    /// A reserved value: a peer that sends it is broken.
    Reserved,
}

/// The responder's reason for a NAK (IB specification 9.7.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum NakCode {
    /// Packets are missing before this one.
    PsnSequenceError = 0,
    /// The request is malformed or not permitted.
    InvalidRequest = 1,
    /// Wrong key, range or access right.
    RemoteAccessError = 2,
    /// The responder failed while it executed the request.
    RemoteOperationalError = 3,
    /// RD only: the EE context or Q_Key does not fit.
    InvalidRdRequest = 4,
}

const KIND_SHIFT: u32 = 5;
const CODE_MASK: u8 = 0x1f;
const KIND_ACK: u8 = 0;
const KIND_RNR: u8 = 1;
const KIND_NAK: u8 = 3;

impl Syndrome {
    /// An ACK of a responder without end-to-end flow control.
    pub const ACK_UNLIMITED: Syndrome = Syndrome::ack(crate::CREDIT_CODE_UNLIMITED);

    /// An ACK with a [`credit_code`](crate::credit_code); only its low 5 bits count.
    pub const fn ack(credit_code: u8) -> Syndrome {
        Syndrome::new(KIND_ACK, credit_code)
    }

    /// An RNR NAK with a timer code; only its low 5 bits count.
    pub const fn rnr(timer_code: u8) -> Syndrome {
        Syndrome::new(KIND_RNR, timer_code)
    }

    /// A NAK with this code.
    pub const fn nak(code: NakCode) -> Syndrome {
        Syndrome::new(KIND_NAK, code as u8)
    }

    /// Decodes the byte.
    #[inline]
    pub fn kind(self) -> SyndromeKind {
        let code = self.0 & CODE_MASK;
        match self.0 >> KIND_SHIFT {
            KIND_ACK => SyndromeKind::Ack { credits: credit_count(code) },
            KIND_RNR => SyndromeKind::RnrNak { timer: code },
            KIND_NAK => match NakCode::from_code(code) {
                Some(code) => SyndromeKind::Nak(code),
                None => SyndromeKind::Reserved,
            },
            _ => SyndromeKind::Reserved,
        }
    }

    const fn new(kind: u8, code: u8) -> Syndrome {
        Syndrome(kind << KIND_SHIFT | code & CODE_MASK)
    }
}

impl NakCode {
    /// All codes, by number.
    pub const ALL: [NakCode; 5] = [
        NakCode::PsnSequenceError,
        NakCode::InvalidRequest,
        NakCode::RemoteAccessError,
        NakCode::RemoteOperationalError,
        NakCode::InvalidRdRequest,
    ];

    /// The code with this number; `None` if it is reserved.
    pub fn from_code(code: u8) -> Option<NakCode> {
        NakCode::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Debug for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Syndrome({:#04x} {:?})", self.0, self.kind())
    }
}

#[cfg(test)]
mod tests;
