//! Errors of making an endpoint.

use device::OpenError;

use super::ResourceError;

/// The reason why an endpoint could not be made.
///
/// It comes from [`Route::rc`](crate::Route) and its siblings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The device could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A resource could not be made.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}
