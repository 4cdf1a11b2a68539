//! The bytes of tarpc's messages, and its errors as ours.
//!
//! tarpc's own `Request` would carry the deadline inside. Its decoder adds the peer's number to the clock and panics if
//! that overflows. So the deadline travels as that of the call, which the carrier checks. And its `ServerError` writes the
//! kind as a signed number and reads an unsigned one, which is the same in few formats. So [`ErrorWords`] takes its place.

use std::io::ErrorKind;

use ::tarpc::ServerError;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::code::{Code, Executed};
use crate::status::Status;

/// Encodes a message.
pub(super) fn encode(message: &impl Serialize) -> Result<Bytes, Status> {
    let encoded = postcard::to_stdvec(message).map(Bytes::from);
    encoded.map_err(|error| Status::internal(format!("the message cannot be encoded: {error}")))
}

/// Decodes all of `bytes`.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Status> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(Status::internal(format!("{} bytes follow the message", rest.len()))),
        Err(error) => Err(Status::internal(format!("the message cannot be decoded: {error}"))),
    }
}

/// An error of the server as it travels: the kind's place in [`KINDS`], and the detail.
#[derive(Serialize, Deserialize)]
struct ErrorWords(u8, String);

/// Kinds by their numbers. Any other kind travels as `Other`.
const KINDS: [ErrorKind; 20] = [
    ErrorKind::Other,
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::ConnectionRefused,
    ErrorKind::ConnectionReset,
    ErrorKind::ConnectionAborted,
    ErrorKind::NotConnected,
    ErrorKind::AddrInUse,
    ErrorKind::AddrNotAvailable,
    ErrorKind::BrokenPipe,
    ErrorKind::AlreadyExists,
    ErrorKind::WouldBlock,
    ErrorKind::InvalidInput,
    ErrorKind::InvalidData,
    ErrorKind::TimedOut,
    ErrorKind::WriteZero,
    ErrorKind::Interrupted,
    ErrorKind::UnexpectedEof,
    ErrorKind::Unsupported,
    ErrorKind::OutOfMemory,
];

/// Encodes what the handler answered.
pub(super) fn encode_reply(outcome: &Result<impl Serialize, ServerError>) -> Result<Bytes, Status> {
    let words = |error: &ServerError| {
        let kind = KINDS.iter().position(|kind| *kind == error.kind).unwrap_or(0);
        ErrorWords(kind as u8, error.detail.clone())
    };
    encode(&outcome.as_ref().map_err(words))
}

/// Decodes what the handler answered.
pub(super) fn decode_reply<R: DeserializeOwned>(bytes: &[u8]) -> Result<Result<R, ServerError>, Status> {
    let error = |ErrorWords(kind, detail)| {
        let kind = KINDS.get(usize::from(kind)).copied().unwrap_or(ErrorKind::Other);
        ServerError::new(kind, detail)
    };
    Ok(decode::<Result<R, ErrorWords>>(bytes)?.map_err(error))
}

/// The status of a call as the error that tarpc knows.
pub(super) fn server_error(status: &Status) -> ServerError {
    let kind = match (status.code(), status.executed()) {
        (Code::DeadlineExceeded, _) => ErrorKind::TimedOut,
        (Code::NotFound, _) => ErrorKind::NotFound,
        (Code::AlreadyExists, _) => ErrorKind::AlreadyExists,
        (Code::PermissionDenied | Code::Unauthenticated, _) => ErrorKind::PermissionDenied,
        (Code::InvalidArgument | Code::OutOfRange, _) => ErrorKind::InvalidInput,
        (Code::Internal | Code::DataLoss, _) => ErrorKind::InvalidData,
        (Code::Unimplemented, _) => ErrorKind::Unsupported,
        (Code::ResourceExhausted, _) => ErrorKind::OutOfMemory,
        (Code::Cancelled, _) => ErrorKind::Interrupted,
        (Code::Unavailable, Executed::No) => ErrorKind::NotConnected,
        (Code::Unavailable, _) => ErrorKind::ConnectionReset,
        _ => ErrorKind::Other,
    };
    ServerError::new(kind, status.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_and_extended_messages_are_refused() {
        let bytes = encode(&("hello".to_string(), 7_u64)).unwrap();
        assert_eq!(decode::<(String, u64)>(&bytes), Ok(("hello".to_string(), 7)));
        for cut in 0..bytes.len() {
            assert_eq!(decode::<(String, u64)>(&bytes[..cut]).unwrap_err().code(), Code::Internal);
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(decode::<(String, u64)>(&longer).unwrap_err().message(), "1 bytes follow the message");
    }

    #[test]
    fn a_server_error_keeps_its_kind() {
        let kinds = KINDS.into_iter().map(|kind| (kind, kind)).chain([(ErrorKind::Deadlock, ErrorKind::Other)]);
        for (sent, received) in kinds {
            let bytes = encode_reply(&Err::<(), _>(ServerError::new(sent, "busy".into()))).unwrap();
            assert_eq!(decode_reply::<()>(&bytes).unwrap(), Err(ServerError::new(received, "busy".into())));
        }
        assert_eq!(decode_reply::<()>(&[1, 250, 0]).unwrap().unwrap_err().kind, ErrorKind::Other);
    }
}
