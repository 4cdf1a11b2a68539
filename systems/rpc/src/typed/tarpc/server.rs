//! The server's side: a service of tarpc as the methods of a server.

use std::future::Future;
use std::sync::Arc;

use ::tarpc::context::{self, Context};
use ::tarpc::{ServerError, trace};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::messages::{decode, encode_reply};
use crate::code::Executed;
use crate::message::{Request, Response};
use crate::service::{Method, Methods, RunOn};

/// The methods of a server that answer the calls of one service of tarpc, see [the module](crate::tarpc).
///
/// `handler` is a closure that hands the request to tarpc: `move |context, request| service.clone().serve().serve(context,
/// request)` with [`Serve`](::tarpc::server::Serve) imported. The context has the deadline and the trace of the caller. A request
/// without a deadline has tarpc's, ten seconds from its arrival.
pub fn serve<Q, R, F, A>(method: Method, run_on: RunOn, handler: F) -> Methods
where
    Q: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(Context, Q) -> A + Send + Sync + 'static,
    A: Future<Output = Result<R, ServerError>> + Send + 'static,
{
    let handler = Arc::new(handler);
    Methods::new(service_of(method)).asynchronous(method, run_on, move |request: Request<Bytes>| {
        let handler = Arc::clone(&handler);
        async move {
            let decoded = decode::<(trace::Context, Q)>(request.get_ref());
            let (trace_context, message) = decoded.map_err(|status| status.with_executed(Executed::No))?;
            let mut context = context::current();
            context.trace_context = trace_context;
            context.deadline = request.deadline().unwrap_or(context.deadline);
            drop(request);
            encode_reply(&handler(context, message).await).map(Response::new)
        }
    })
}

/// The part of the path between the slashes.
fn service_of(method: Method) -> &'static str {
    let path = method.path().strip_prefix('/').unwrap_or(method.path());
    path.rsplit_once('/').map_or(path, |(service, _)| service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_names_the_service() {
        assert_eq!(service_of(Method::new("/tarpc.World/Call")), "tarpc.World");
        assert_eq!(service_of(Method::new("World")), "World");
    }
}
