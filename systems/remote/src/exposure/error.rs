//! Errors of memory that another process exposes.

use std::io;

/// The reason why memory is not exposed, or a right is not given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExposureError {
    /// Nobody can listen at the address, or there is no device.
    #[error("the memory cannot be exposed: {0}")]
    Start(String),
    /// The request is wrong, or a bound is reached.
    #[error("refused: {0}")]
    Refused(String),
    /// Another process that lives serves under this name.
    #[error("another process that lives has the name {0:?}")]
    NameTaken(String),
    /// The memory process does not start, does not answer, or has ended.
    #[error("the memory process: {0}")]
    Process(#[from] io::Error),
}

impl ExposureError {
    pub(crate) fn start(why: impl ToString) -> ExposureError {
        ExposureError::Start(why.to_string())
    }

    /// A memory process that does not do its part.
    pub(crate) fn process(why: impl Into<String>) -> ExposureError {
        ExposureError::Process(io::Error::other(why.into()))
    }
}
