//! Services: methods and their handlers, before any way carries them.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::code::{Code, Executed};
use crate::message::{Request, Response};
use crate::published::PublishedSlice;
use crate::status::Status;

/// A future on the heap that another thread may run.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The outcome of a handler: the bytes of the reply, or why there is none.
pub type Answer = Result<Response<Bytes>, Status>;

/// The name of a method, and the number by which requests name it.
///
/// The number is the 64-bit FNV-1a hash of the name. A server refuses two methods of one number.
///
/// ```
/// use longarm_rpc::Method;
///
/// const SAY: Method = Method::new("/echo.Echo/Say");
/// assert_eq!(SAY.path(), "/echo.Echo/Say");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Method {
    path: &'static str,
    number: u64,
}

impl Method {
    /// The method with this path, which is `/package.Service/Method` as in gRPC.
    pub const fn new(path: &'static str) -> Method {
        Method { path, number: number_of(path) }
    }

    /// The path.
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// The number.
    pub const fn number(&self) -> u64 {
        self.number
    }
}

/// The number of the method with that path: FNV-1a (Fowler, Noll, Vo) with 64 bits.
pub const fn number_of(path: &str) -> u64 {
    let (bytes, mut hash, mut at) = (path.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

/// A request with the method that it asks for: the request type of the [`tower_service::Service`]s of this crate.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The encoded message, the metadata and the deadline.
    pub request: Request<Bytes>,
}

/// The thread on which a handler runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunOn {
    /// The polling thread runs it until it waits for the first time; an executor runs the rest. For handlers that take
    /// microseconds: the others wait for them.
    #[default]
    Poller,
    /// The server's executor: for handlers that wait for something.
    Executor,
    /// A thread of the server's pool: for handlers that block.
    Pool,
}

/// A handler that fills the reply in place, on the polling thread.
pub(crate) type DirectHandler = dyn Fn(&[u8], &mut Vec<u8>) -> Result<(), Status> + Send + Sync;
/// A handler whose reply the client READs, on the polling thread.
pub(crate) type PublishedHandler = dyn Fn(&[u8]) -> Result<PublishedSlice, Status> + Send + Sync;
/// A handler whose reply is a future.
pub(crate) type FutureHandler = dyn Fn(Request<Bytes>) -> BoxFuture<Answer> + Send + Sync;

/// One handler.
#[derive(Clone)]
pub(crate) enum Handler {
    Direct(Arc<DirectHandler>),
    Published(Arc<PublishedHandler>),
    Future(RunOn, Arc<FutureHandler>),
}

/// The methods of one service with their handlers.
///
/// Generated code makes it from a trait (crate `longarm-rpc-build`). By hand:
///
/// ```
/// use longarm_rpc::{Method, Methods, Response, RunOn};
///
/// let echo = Methods::new("echo.Echo")
///     .direct(Method::new("/echo.Echo/Say"), |request, reply| {
///         reply.extend_from_slice(request);
///         Ok(())
///     })
///     .asynchronous(Method::new("/echo.Echo/Later"), RunOn::Executor, |request| async move {
///         Ok(Response::new(request.into_inner()))
///     });
/// # drop(echo);
/// ```
#[derive(Clone)]
pub struct Methods {
    name: &'static str,
    list: Vec<(Method, Handler)>,
    descriptor: Option<&'static [u8]>,
}

impl Methods {
    /// No methods yet, for the service with that name (`package.Service`).
    pub fn new(name: &'static str) -> Methods {
        Methods { name, list: Vec::new(), descriptor: None }
    }

    /// Adds a short method, without metadata. The polling thread runs it: it gets the bytes of the request and appends
    /// those of the reply. Neither side allocates.
    #[must_use]
    pub fn direct(
        mut self,
        method: Method,
        handler: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), Status> + Send + Sync + 'static,
    ) -> Methods {
        self.list.push((method, Handler::Direct(Arc::new(handler))));
        self
    }

    /// Adds a short method whose reply is a part of published bytes, without metadata. The polling thread runs it. The
    /// client READs a long reply, and no processor of the server copies it.
    #[must_use]
    pub fn published(
        mut self,
        method: Method,
        handler: impl Fn(&[u8]) -> Result<PublishedSlice, Status> + Send + Sync + 'static,
    ) -> Methods {
        self.list.push((method, Handler::Published(Arc::new(handler))));
        self
    }

    /// Adds a method whose handler is an asynchronous function.
    #[must_use]
    pub fn asynchronous<F, R>(mut self, method: Method, run_on: RunOn, handler: F) -> Methods
    where
        F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = Answer> + Send + 'static,
    {
        let boxed = move |request| -> BoxFuture<Answer> { Box::pin(handler(request)) };
        self.list.push((method, Handler::Future(run_on, Arc::new(boxed))));
        self
    }

    /// Adds a method whose handler blocks: a thread of the server's pool runs it.
    #[must_use]
    pub fn blocking<F>(self, method: Method, handler: F) -> Methods
    where
        F: Fn(Request<Bytes>) -> Answer + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.asynchronous(method, RunOn::Pool, move |request| {
            let handler = Arc::clone(&handler);
            async move { handler(request) }
        })
    }

    /// Adds the description of the service for reflection: an encoded `google.protobuf.FileDescriptorSet`.
    #[must_use]
    pub fn described_by(mut self, file_descriptor_set: &'static [u8]) -> Methods {
        self.descriptor = Some(file_descriptor_set);
        self
    }

    /// The name of the service.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The paths of its methods.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.list.iter().map(|(method, _)| method.path())
    }

    /// The encoded `FileDescriptorSet`, if there is one.
    pub fn descriptor(&self) -> Option<&'static [u8]> {
        self.descriptor
    }
}

impl fmt::Debug for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Methods({}: {:?})", self.name, self.paths().collect::<Vec<_>>())
    }
}

/// A thing that has methods: the servers that `longarm-rpc-build` generates.
pub trait IntoMethods {
    /// The methods with their handlers.
    fn into_methods(self) -> Methods;
}

impl IntoMethods for Methods {
    fn into_methods(self) -> Methods {
        self
    }
}

/// All methods of a server, by number.
///
/// It is a [`tower_service::Service`] itself: calls go straight to the handlers, in the caller's task. So tests of a
/// service need no server.
#[derive(Clone, Debug, Default)]
pub struct Router {
    services: Vec<Methods>,
    by_number: HashMap<u64, (usize, usize)>,
}

impl Router {
    /// Adds a service.
    ///
    /// # Errors
    /// [`Code::AlreadyExists`] if it has a method that is there, or one of the same number.
    pub fn add(&mut self, service: impl IntoMethods) -> Result<(), Status> {
        let methods = service.into_methods();
        for (at, (method, _)) in methods.list.iter().enumerate() {
            if let Some(other) = self.by_number.insert(method.number(), (self.services.len(), at)) {
                let other = self.services.get(other.0).unwrap_or(&methods).list[other.1].0;
                let words = format!("{} and {} have one number", other.path(), method.path());
                return Err(Status::new(Code::AlreadyExists, words).with_executed(Executed::No));
            }
        }
        self.services.push(methods);
        Ok(())
    }

    /// The services.
    pub fn services(&self) -> &[Methods] {
        &self.services
    }

    /// The method with that number and its handler.
    pub(crate) fn find(&self, number: u64) -> Option<(Method, &Handler)> {
        let (service, at) = self.by_number.get(&number)?;
        let (method, handler) = &self.services[*service].list[*at];
        Some((*method, handler))
    }

    /// Runs the handler of a call.
    pub fn route(&self, call: Call) -> BoxFuture<Answer> {
        match self.find(call.method.number()) {
            Some((_, Handler::Future(_, handler))) => handler(call.request),
            Some((_, Handler::Direct(handler))) => {
                let mut reply = Vec::new();
                let done = handler(call.request.get_ref(), &mut reply);
                Box::pin(ready(done.map(|()| Response::new(Bytes::from(reply)))))
            }
            Some((_, Handler::Published(handler))) => {
                let mut reply = Vec::new();
                let done = handler(call.request.get_ref()).map(|slice| slice.append_to(&mut reply));
                Box::pin(ready(done.map(|()| Response::new(Bytes::from(reply)))))
            }
            None => Box::pin(ready(Err(no_such_method(call.method.path())))),
        }
    }
}

/// The refusal of a method that the server does not have.
pub(crate) fn no_such_method(path: impl fmt::Display) -> Status {
    Status::unimplemented(format!("the server has no method {path}")).with_executed(Executed::No)
}

impl tower_service::Service<Call> for Router {
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = AnswerFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> AnswerFuture {
        AnswerFuture(self.route(call))
    }
}

/// The future of a call.
///
/// It has a type of its own for tower's `Buffer`. If the future were a [`BoxFuture`], no task could be spawned that calls through a
/// `Buffer` of the channel: the compiler loses the lifetime of the trait object (rust-lang/rust#102211).
pub struct AnswerFuture(pub(crate) BoxFuture<Answer>);

impl Future for AnswerFuture {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for AnswerFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerFuture")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAY: Method = Method::new("/echo.Echo/Say");

    fn echo() -> Methods {
        Methods::new("echo.Echo")
            .asynchronous(SAY, RunOn::Poller, |request| async move { Ok(Response::new(request.into_inner())) })
    }

    #[tokio::test]
    async fn a_call_reaches_its_handler() {
        let mut router = Router::default();
        router.add(echo()).unwrap();
        let call = |method| Call { method, request: Request::new(Bytes::from_static(b"hello")) };
        assert_eq!(router.route(call(SAY)).await.unwrap().into_inner(), "hello");
        let missing = router.route(call(Method::new("/echo.Echo/Sing"))).await.unwrap_err();
        assert_eq!((missing.code(), missing.executed()), (Code::Unimplemented, Executed::No));
    }

    #[test]
    fn a_method_cannot_be_added_twice() {
        let mut router = Router::default();
        router.add(echo()).unwrap();
        assert_eq!(router.add(echo()).unwrap_err().code(), Code::AlreadyExists);
    }
}
