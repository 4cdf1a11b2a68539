//! NAK codes in frames.

use wire::NakCode;

use crate::memory::MemoryError;

/// The NAK for a request that our memory refuses (IB specification 9.7.5.2).
pub(crate) fn remote_refusal(error: MemoryError) -> NakCode {
    match error {
        MemoryError::Misaligned => NakCode::InvalidRequest,
        _ => NakCode::RemoteAccessError,
    }
}

/// The NAK code in a frame. An unknown number counts as a remote operational error.
pub(crate) fn nak_code(code: u16) -> NakCode {
    const ALL: [NakCode; 4] = [
        NakCode::InvalidRequest,
        NakCode::RemoteAccessError,
        NakCode::RemoteOperationalError,
        NakCode::InvalidRdRequest,
    ];
    ALL.into_iter().find(|known| *known as u16 == code).unwrap_or(NakCode::RemoteOperationalError)
}
