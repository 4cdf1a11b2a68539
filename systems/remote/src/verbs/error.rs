//! Errors of readers on queue pairs.

use longarm::error::WorkError;
use longarm::{KeyError, ResourceError};

use crate::local::LookupError;
use crate::object::ReadGrain;
use crate::update::UpdateRefusal;

/// The reason why a reader has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Writers were in between each time, or there is no such table.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A request failed, and with it the connection.
    #[error("the connection failed: {0}")]
    Link(#[from] WorkError),
    /// There is no memory for a buffer.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The key to the table leads to less than the table says.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The check of the table needs READs that copy larger pieces whole.
    #[error("the check {check} needs READs that copy {needs:?}s whole; of this connection only {grain:?}s are known")]
    GrainTooFine {
        /// The name of the check.
        check: &'static str,
        /// The pieces that it needs.
        needs: ReadGrain,
        /// The pieces that the reader may count on.
        grain: ReadGrain,
    },
    /// The table needs READs of objects at one moment, and this end or its peer has none.
    #[error("the check {check} needs READs of objects at one moment, which this device or its peer does not have")]
    NoObjectReads {
        /// The name of the check.
        check: &'static str,
    },
    /// Only the owner can do this update.
    #[error(transparent)]
    Update(#[from] UpdateRefusal),
    /// The key is absent: only the owner inserts.
    #[error("the key is absent, and only the owner of the table inserts")]
    Absent,
}
