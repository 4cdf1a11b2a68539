//! A service with handlers that look into their requests.
#![allow(dead_code)] // each test uses a part

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use longarm_rpc::{Request, Response, Router, Status};
use longarm_rpc_examples::greeter::greeter_client::GreeterClient;
use longarm_rpc_examples::greeter::greeter_server::{Greeter, GreeterServer};
use longarm_rpc_examples::greeter::{CountReply, HelloReply, HelloRequest, Politeness};

/// Greets, counts, and keeps the deadline of the last request.
#[derive(Default)]
pub(crate) struct Doorman {
    pub(crate) greetings: AtomicU64,
    pub(crate) deadline: Mutex<Option<Instant>>,
}

#[longarm_rpc::async_trait]
impl Greeter for Doorman {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        *self.deadline.lock().unwrap() = request.deadline();
        let metadata = request.metadata().clone();
        let HelloRequest { name, politeness } = request.into_inner();
        if name.is_empty() {
            return Err(Status::invalid_argument("nobody has this name"));
        }
        self.greetings.fetch_add(1, Ordering::Relaxed);
        let greeting = match Politeness::try_from(politeness) {
            Ok(Politeness::Formal) => format!("Good day, {name}."),
            _ => format!("Hello {name}!"),
        };
        Ok(Response::from_parts(HelloReply { greeting }, metadata))
    }

    async fn count(&self, _: Request<()>) -> Result<Response<CountReply>, Status> {
        Ok(Response::new(CountReply { greetings: self.greetings.load(Ordering::Relaxed) }))
    }
}

/// A router with the doorman's service.
pub(crate) fn router(doorman: &Arc<Doorman>) -> Router {
    let mut router = Router::default();
    router.add(GreeterServer::from_arc(Arc::clone(doorman))).unwrap();
    router
}

/// A client of that router.
pub(crate) fn client(doorman: &Arc<Doorman>) -> GreeterClient<Router> {
    GreeterClient::new(router(doorman))
}

/// An ordinary request.
pub(crate) fn request(name: &str) -> HelloRequest {
    HelloRequest { name: name.into(), politeness: Politeness::Casual.into() }
}
