//! The error of a call.

use std::fmt;

use crate::code::{Code, Executed};
use crate::metadata::Metadata;

/// The name under which gRPC sends the details of a status (doc/PROTOCOL-HTTP2.md).
pub(crate) const DETAILS: &str = "grpc-status-details-bin";

/// A call that failed: why, in a code and in words, and whether the server executed it.
///
/// ```
/// use longarm_rpc::{Code, Executed, Status};
///
/// let status = Status::not_found("no such key");
/// assert_eq!(status.code(), Code::NotFound);
/// assert_eq!(status.executed(), Executed::Yes);      // a handler said so
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Status {
    code: Code,
    message: String,
    executed: Executed,
    /// Most have none.
    metadata: Option<Box<Metadata>>,
}

impl Status {
    /// The answer of a handler, which therefore ran.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code, message: message.into(), executed: Executed::Yes, metadata: None }
    }

    /// The same with another answer to the question whether a handler ran.
    #[must_use]
    pub fn with_executed(mut self, executed: Executed) -> Status {
        self.executed = executed;
        self
    }

    /// The same with metadata, which the caller gets with it. A server leaves metadata out that are longer than
    /// [`MAX_METADATA_BYTES`](crate::MAX_METADATA_BYTES) in all.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Status {
        self.metadata = (!metadata.is_empty()).then(|| Box::new(metadata));
        self
    }

    /// The same with details: by gRPC's convention an encoded `google.rpc.Status`. They are the entry
    /// `grpc-status-details-bin` of the metadata.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<Vec<u8>>) -> Status {
        self.metadata.get_or_insert_default().insert(DETAILS, details);
        self
    }

    /// The metadata; none if the status has none.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_deref()
    }

    /// The details; empty if the status has none.
    pub fn details(&self) -> &[u8] {
        self.metadata().and_then(|metadata| metadata.get(DETAILS)).unwrap_or_default()
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the server's handler ran.
    pub fn executed(&self) -> Executed {
        self.executed
    }

    /// True if the caller may send the request again without harm: it was not executed.
    pub fn can_repeat(&self) -> bool {
        self.executed == Executed::No
    }
}

macro_rules! constructors {
    ($($name:ident $code:ident)*) => {
        impl Status {
            $(
                #[doc = concat!("A status with [`Code::", stringify!($code), "`], from a handler.")]
                pub fn $name(message: impl Into<String>) -> Status {
                    Status::new(Code::$code, message)
                }
            )*
        }
    };
}

constructors! {
    cancelled Cancelled
    unknown Unknown
    invalid_argument InvalidArgument
    deadline_exceeded DeadlineExceeded
    not_found NotFound
    already_exists AlreadyExists
    permission_denied PermissionDenied
    resource_exhausted ResourceExhausted
    failed_precondition FailedPrecondition
    aborted Aborted
    out_of_range OutOfRange
    unimplemented Unimplemented
    internal Internal
    unavailable Unavailable
    data_loss DataLoss
    unauthenticated Unauthenticated
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({}, {:?}, executed: {:?})", self.code, self.message, self.executed)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let executed = match self.executed {
            Executed::No => "; the server did not execute it",
            Executed::Yes => "",
            Executed::Unknown => "; nobody can tell whether the server executed it",
        };
        write!(f, "{}: {}{executed}", self.code, self.message)
    }
}

impl std::error::Error for Status {}
