//! Errors, one enum per family of verbs. Their texts tell the user what to do.
//!
//! | error | of |
//! |---|---|
//! | [`OpenError`] | opening a [`Device`](crate::Device) |
//! | [`ResourceError`] | making and changing resources: domains, regions, queues, queue pairs |
//! | [`ConnectError`] | connecting a queue pair, listening |
//! | [`PostError`] | posting a work request |
//! | [`WorkError`] | the outcome of a work request |
//! | [`KeyError`] | naming memory |
//! | [`ReclaimError`] | taking given memory back |
//!
//! A [`Failure`] is a [`WorkError`] with the buffers of the request.

mod connect;
pub(crate) mod endpoint;
mod key;
mod reclaim;
mod request;
mod resource;

pub use crate::flight::Failure;
pub use connect::{ConnectError, Refusal};
pub use device::{CaptureError, OpenError};
pub(crate) use endpoint::EndpointError;
pub use key::KeyError;
pub use reclaim::ReclaimError;
pub use request::{PostError, WaitError, WorkError};
pub use resource::ResourceError;
