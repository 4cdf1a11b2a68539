//! The error of a call.

use std::fmt;

use crate::code::{Code, Executed};

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
}

impl Status {
    /// The answer of a handler, which therefore ran.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code, message: message.into(), executed: Executed::Yes }
    }

    /// The same with another answer to the question whether a handler ran.
    #[must_use]
    pub fn with_executed(mut self, executed: Executed) -> Status {
        self.executed = executed;
        self
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
