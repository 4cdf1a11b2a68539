//! Calls and handlers whose messages are those of Protocol Buffers.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tower_service::Service;

use crate::code::Executed;

use crate::client::Client;
use crate::message::{Request, Response};
use crate::service::{Call, Method, Methods, RunOn};
use crate::status::Status;
use crate::typed::errors::BoxError;
use crate::typed::exchange::exchange;

/// Calls a method: encodes the request, waits for the reply, decodes it. Generated clients use it.
///
/// ```
/// use longarm_rpc::{Method, Methods, Request, Response, Router, RunOn, unary};
///
/// const LENGTH: Method = Method::new("/text.Text/Length");
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let text = Methods::new("text.Text").unary(LENGTH, RunOn::Poller, |request: Request<String>| async move {
///     Ok(Response::new(request.get_ref().len() as u64))
/// });
/// let mut router = Router::default();
/// router.add(text)?;
/// let reply: Response<u64> = unary(&mut router, LENGTH, Request::new("four".to_string())).await?;
/// assert_eq!(reply.into_inner(), 4);
/// # Ok::<(), longarm_rpc::Status>(())
/// # }).unwrap();
/// ```
///
/// # Errors
/// The status of the handler, of the channel or of a layer around it; [`Code::Internal`](crate::Code::Internal) if the reply
/// is no message of its type.
pub async fn unary<T, Q, R>(service: &mut T, method: Method, request: Request<Q>) -> Result<Response<R>, Status>
where
    T: Service<Call, Response = Response<Bytes>>,
    T::Error: Into<BoxError>,
    Q: Message,
    R: Message + Default,
{
    let request = request.map(|message| encode(&message));
    let (bytes, metadata) = exchange(service, Call { method, request }).await?.into_parts();
    Ok(Response::from_parts(decode_reply(bytes)?, metadata))
}

fn decode_reply<R: Message + Default>(bytes: Bytes) -> Result<R, Status> {
    R::decode(bytes).map_err(|error| Status::internal(format!("the reply cannot be decoded: {error}")))
}

/// One allocation of the exact length; no copy afterwards.
fn encode(message: &impl Message) -> Bytes {
    Bytes::from(message.encode_to_vec())
}

/// The gRPC code of a request that does not decode is INTERNAL (doc/statuscodes.md).
fn undecodable(error: &prost::DecodeError) -> Status {
    Status::internal(format!("the request cannot be decoded: {error}")).with_executed(Executed::No)
}

impl Client {
    /// Calls a method with messages of Protocol Buffers, and polls until the reply is there.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use longarm_rpc::{Client, ClientOptions, Method};
    ///
    /// const NEXT: Method = Method::new("/sum.Sum/Next");
    /// # fn main() -> Result<(), longarm_rpc::Status> {
    /// let mut client = Client::connect("host:7471", &ClientOptions::default())?;
    /// let next: u64 = client.unary(NEXT, &41_u64, Duration::from_millis(10))?;
    /// # drop(next);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`call`](Client::call); [`Code::Internal`](crate::Code::Internal) if the reply is no message of its type.
    pub fn unary<Q, R>(&mut self, method: Method, request: &Q, timeout: Duration) -> Result<R, Status>
    where
        Q: Message,
        R: Message + Default,
    {
        decode_reply(self.call(method, &request.encode_to_vec(), timeout)?)
    }
}

impl Methods {
    /// Adds a method with messages of Protocol Buffers, whose handler is an asynchronous function. `bytes` fields of type
    /// `Bytes` share the received request.
    #[must_use]
    pub fn unary<Q, R, F, A>(self, method: Method, run_on: RunOn, handler: F) -> Methods
    where
        Q: Message + Default + 'static,
        R: Message + 'static,
        F: Fn(Request<Q>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Response<R>, Status>> + Send + 'static,
    {
        let handler = std::sync::Arc::new(handler);
        self.asynchronous(method, run_on, move |request| {
            let handler = std::sync::Arc::clone(&handler);
            async move {
                let request = request.try_map(|bytes| Q::decode(bytes).map_err(|error| undecodable(&error)))?;
                let done = handler(request).await;
                done.map(|response| response.map(|message| encode(&message)))
            }
        })
    }

    /// Adds a short method with messages of Protocol Buffers, without metadata. The polling thread runs it. It decodes from
    /// the received bytes and encodes into the buffer that leaves.
    ///
    /// ```
    /// use longarm_rpc::{Method, Methods};
    ///
    /// let add = Methods::new("sum.Sum").direct_unary(Method::new("/sum.Sum/Next"), |number: u64| Ok(number + 1));
    /// # drop(add);
    /// ```
    #[must_use]
    pub fn direct_unary<Q, R>(
        self,
        method: Method,
        handler: impl Fn(Q) -> Result<R, Status> + Send + Sync + 'static,
    ) -> Methods
    where
        Q: Message + Default,
        R: Message,
    {
        self.direct(method, move |request, reply| {
            let message = handler(Q::decode(request).map_err(|error| undecodable(&error))?)?;
            message.encode(reply).map_err(|error| Status::internal(format!("the reply cannot be encoded: {error}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::service::Router;

    const NEXT: Method = Method::new("/sum.Sum/Next");
    const LATER: Method = Method::new("/sum.Sum/Later");

    fn sums() -> Router {
        let mut router = Router::default();
        let methods = Methods::new("sum.Sum").direct_unary(NEXT, |number: u64| Ok(number + 1)).unary(
            LATER,
            RunOn::Executor,
            |request: Request<u64>| async move {
                let mut response = Response::new(request.get_ref() + 1);
                *response.metadata_mut() = request.metadata().clone();
                Ok(response)
            },
        );
        router.add(methods).unwrap();
        router
    }

    #[tokio::test]
    async fn messages_and_metadata_go_there_and_back() {
        let mut request = Request::new(41_u64);
        request.metadata_mut().insert("user", "ada");
        let response: Response<u64> = unary(&mut sums(), LATER, request).await.unwrap();
        assert_eq!((response.metadata().get("user"), *response.get_ref()), (Some(&b"ada"[..]), 42));
        let response: Response<u64> = unary(&mut sums(), NEXT, Request::new(1_u64)).await.unwrap();
        assert_eq!(response.into_inner(), 2);
    }

    #[tokio::test]
    async fn a_request_that_does_not_decode_is_not_executed() {
        for method in [NEXT, LATER] {
            let request = Request::new(Bytes::from_static(&[0x08]));
            let status = sums().route(Call { method, request }).await.unwrap_err();
            assert_eq!((status.code(), status.executed()), (Code::Internal, Executed::No));
        }
    }

    #[tokio::test]
    async fn a_reply_of_another_type_is_an_error_of_an_executed_call() {
        let status = unary::<_, u64, String>(&mut sums(), NEXT, Request::new(1)).await.unwrap_err();
        assert_eq!((status.code(), status.executed()), (Code::Internal, Executed::Yes));
    }
}
