//! Requests and responses with their metadata, as handlers and callers see them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::auth::AuthenticatedPeer;
use crate::metadata::Metadata;

/// A message on its way to a server, with its metadata and its deadline.
///
/// ```
/// use std::time::Duration;
/// use longarm_rpc::Request;
///
/// let mut request = Request::new("how much?");
/// request.set_timeout(Duration::from_millis(1));
/// assert!(request.deadline().is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Request<T> {
    message: T,
    metadata: Metadata,
    deadline: Option<Instant>,
    peer: Option<Arc<AuthenticatedPeer>>,
}

impl<T> Request<T> {
    /// A request without metadata and without a deadline.
    pub fn new(message: T) -> Request<T> {
        Request { message, metadata: Metadata::default(), deadline: None, peer: None }
    }

    /// A request of these parts.
    pub fn from_parts(message: T, metadata: Metadata, deadline: Option<Instant>) -> Request<T> {
        Request { message, metadata, deadline, peer: None }
    }

    /// The message, the metadata and the deadline.
    pub fn into_parts(self) -> (T, Metadata, Option<Instant>) {
        (self.message, self.metadata, self.deadline)
    }

    /// The message.
    pub fn into_inner(self) -> T {
        self.message
    }

    /// The message, borrowed.
    pub fn get_ref(&self) -> &T {
        &self.message
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The metadata, to be changed.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The caller stops waiting this long from now. The server learns the time that is left.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.deadline = Instant::now().checked_add(timeout);
    }

    /// The moment at which the caller stops waiting, by the clock of this machine.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The caller, if the server demands that clients prove who they are. `None` otherwise, and at the caller itself.
    pub fn peer(&self) -> Option<&AuthenticatedPeer> {
        self.peer.as_deref()
    }

    pub(crate) fn set_peer(&mut self, peer: Option<Arc<AuthenticatedPeer>>) {
        self.peer = peer;
    }

    /// The same with another message.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Request<U> {
        let Request { message, metadata, deadline, peer } = self;
        Request { message: change(message), metadata, deadline, peer }
    }

    #[cfg(feature = "prost")]
    pub(crate) fn try_map<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<Request<U>, E> {
        let Request { message, metadata, deadline, peer } = self;
        Ok(Request { message: change(message)?, metadata, deadline, peer })
    }
}

impl<T> From<T> for Request<T> {
    fn from(message: T) -> Request<T> {
        Request::new(message)
    }
}

/// A message on its way back, with its metadata.
///
/// ```
/// let response = longarm_rpc::Response::new(42);
/// assert_eq!(response.into_inner(), 42);
/// ```
#[derive(Clone, Debug)]
pub struct Response<T> {
    message: T,
    metadata: Metadata,
}

impl<T> Response<T> {
    /// A response without metadata.
    pub fn new(message: T) -> Response<T> {
        Response { message, metadata: Metadata::default() }
    }

    /// A response of these parts.
    pub fn from_parts(message: T, metadata: Metadata) -> Response<T> {
        Response { message, metadata }
    }

    /// The message and the metadata.
    pub fn into_parts(self) -> (T, Metadata) {
        (self.message, self.metadata)
    }

    /// The message.
    pub fn into_inner(self) -> T {
        self.message
    }

    /// The message, borrowed.
    pub fn get_ref(&self) -> &T {
        &self.message
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The metadata, to be changed.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The same with another message.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Response<U> {
        Response { message: change(self.message), metadata: self.metadata }
    }
}

impl<T> From<T> for Response<T> {
    fn from(message: T) -> Response<T> {
        Response::new(message)
    }
}
