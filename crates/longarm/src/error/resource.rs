//! Errors of making and changing resources.

/// Why a resource could not be made or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// A size or count that makes no sense.
    #[error("{what} cannot be {is}: {rule}")]
    Invalid {
        /// Which.
        what: &'static str,
        /// What was asked for.
        is: u64,
        /// What it has to be.
        rule: &'static str,
    },
    /// Two resources of different contexts were used together.
    #[error("the {0} belongs to another context")]
    OtherContext(&'static str),
    /// The device has no address that the resource could use.
    #[error("the device has no {0} address")]
    NoAddress(&'static str),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] device::Error),
}
