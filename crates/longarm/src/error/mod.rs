//! Errors, one enum per family of verbs, each in words that a person can act on.
//!
//! | error | of |
//! |---|---|
//! | [`OpenError`] | opening a [`Context`](crate::Context) |
//! | [`ResourceError`] | making and changing resources: domains, regions, queues, queue pairs |
//! | [`ConnectError`] | bringing a queue pair to its peer, listening |
//! | [`PostError`] | posting a work request |
//! | [`WorkError`] | the outcome of a work request |
//! | [`KeyError`] | naming memory |
//!
//! A [`Failure`] is a [`WorkError`] that brings the buffers back.

mod connect;
pub(crate) mod endpoint;
mod key;
mod request;
mod resource;

pub use crate::flight::Failure;
pub use connect::{ConnectError, Refusal};
pub use device::{CaptureError, OpenError};
pub(crate) use endpoint::EndpointError;
pub use key::KeyError;
pub use request::{PostError, WaitError, WorkError};
pub use resource::ResourceError;
