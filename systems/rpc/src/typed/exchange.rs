//! One call of a channel of any kind.

use std::future::poll_fn;

use bytes::Bytes;
use tower_service::Service;

use super::errors::BoxError;
use crate::code::Executed;
use crate::message::Response;
use crate::service::{Answer, Call};
use crate::status::Status;

/// Waits until the channel takes a call, and for its reply. A channel that takes none has not executed it.
pub(crate) async fn exchange<T>(channel: &mut T, call: Call) -> Answer
where
    T: Service<Call, Response = Response<Bytes>>,
    T::Error: Into<BoxError>,
{
    let ready = poll_fn(|context| channel.poll_ready(context)).await;
    ready.map_err(|error| Status::from_error(error.into()).with_executed(Executed::No))?;
    channel.call(call).await.map_err(|error| Status::from_error(error.into()))
}
