//! Status codes, those of gRPC, and whether the server executed a request.

use std::fmt;

/// The outcome of a call in one word: the codes of gRPC, with its numbers.
///
/// Source: gRPC, "Status codes and their use in gRPC" (doc/statuscodes.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// The call succeeded.
    Ok = 0,
    /// The caller withdrew the call.
    Cancelled = 1,
    /// An error that has no code of its own.
    Unknown = 2,
    /// The request is wrong whatever the state of the server.
    InvalidArgument = 3,
    /// The deadline passed before the reply arrived.
    DeadlineExceeded = 4,
    /// A thing that the request names does not exist.
    NotFound = 5,
    /// A thing that the request would make exists.
    AlreadyExists = 6,
    /// The caller has no right to do this.
    PermissionDenied = 7,
    /// A quota, a queue or a memory is full.
    ResourceExhausted = 8,
    /// The server is not in the state that the request needs.
    FailedPrecondition = 9,
    /// The call lost against another one; the caller may start over.
    Aborted = 10,
    /// The request goes beyond the end.
    OutOfRange = 11,
    /// The server has no such method.
    Unimplemented = 12,
    /// The server broke a rule of its own.
    Internal = 13,
    /// No server can be reached now.
    Unavailable = 14,
    /// Data is lost or damaged.
    DataLoss = 15,
    /// The caller has not proved who it is.
    Unauthenticated = 16,
}

impl Code {
    /// All codes, in the order of their numbers.
    pub const ALL: [Code; 17] = [
        Code::Ok,
        Code::Cancelled,
        Code::Unknown,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
        Code::Unauthenticated,
    ];

    /// The code with this number; [`Code::Unknown`] if there is none.
    pub fn from_number(number: u8) -> Code {
        Code::ALL.get(usize::from(number)).copied().unwrap_or(Code::Unknown)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The code's name as gRPC and OpenTelemetry write it, such as `DEADLINE_EXCEEDED`.
    pub fn name(self) -> &'static str {
        match self {
            Code::Ok => "OK",
            Code::Cancelled => "CANCELLED",
            Code::Unknown => "UNKNOWN",
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Code::NotFound => "NOT_FOUND",
            Code::AlreadyExists => "ALREADY_EXISTS",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Code::FailedPrecondition => "FAILED_PRECONDITION",
            Code::Aborted => "ABORTED",
            Code::OutOfRange => "OUT_OF_RANGE",
            Code::Unimplemented => "UNIMPLEMENTED",
            Code::Internal => "INTERNAL",
            Code::Unavailable => "UNAVAILABLE",
            Code::DataLoss => "DATA_LOSS",
            Code::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the server's handler ran for a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Executed {
    /// It did not and will not: the request can be repeated without harm.
    No = 0,
    /// It ran, once.
    Yes = 1,
    /// Nobody can tell: it ran once or not at all.
    Unknown = 2,
}

impl Executed {
    /// The value with this number; [`Executed::Unknown`] if there is none.
    pub fn from_number(number: u8) -> Executed {
        match number {
            0 => Executed::No,
            1 => Executed::Yes,
            _ => Executed::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_codes_agree() {
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(code.number()), number);
            assert_eq!(Code::from_number(number as u8), code);
        }
        assert_eq!(Code::from_number(17), Code::Unknown);
        assert_eq!(Executed::from_number(9), Executed::Unknown);
    }
}
