//! Building, running and ending a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longarm::{Listener, Target};

use crate::alarm::Alarm;
use crate::auth::ServerDemands;
use crate::observe::ServerObserver;
use crate::options::ServerOptions;
use crate::server::executor::{Executors, Spawn};
use crate::server::figures::WorkerFigures;
use crate::server::inbox::{ToWorker, WorkerInbox};
use crate::server::serving::Serving;
use crate::server::worker::ServerWorker;
use crate::service::{BoxFuture, IntoMethods, Router};
use crate::status::Status;
use crate::verbs::{Port, PortSizes};

/// The time that looking up the name of the address may take.
const BIND: Duration = Duration::from_secs(10);
/// The time for which the acceptor waits before it looks whether the server stops.
const ACCEPT: Duration = Duration::from_millis(50);

/// Services and settings of a server to be.
///
/// ```no_run
/// use longarm_rpc::{Method, Methods, Server};
///
/// # fn main() -> Result<(), longarm_rpc::Status> {
/// let echo = Methods::new("echo.Echo").direct(Method::new("/echo.Echo/Say"), |request, reply| {
///     reply.extend_from_slice(request);
///     Ok(())
/// });
/// let server = Server::builder().add_service(echo)?.bind("0.0.0.0:7471")?;
/// println!("serving at {}", server.local_addr());
/// server.wait();
/// # Ok(())
/// # }
/// ```
#[must_use = "`bind` starts the server"]
#[derive(Default)]
pub struct ServerBuilder {
    router: Router,
    options: ServerOptions,
    demands: ServerDemands,
    spawn: Option<Spawn>,
    #[cfg(feature = "tracing")]
    on_span: Option<crate::observe::OnSpan>,
}

impl ServerBuilder {
    /// Adds a service.
    ///
    /// # Errors
    /// If one of its methods is there already.
    pub fn add_service(mut self, service: impl IntoMethods) -> Result<ServerBuilder, Status> {
        self.router.add(service)?;
        Ok(self)
    }

    /// Replaces the settings.
    pub fn options(mut self, options: ServerOptions) -> ServerBuilder {
        self.options = options;
        self
    }

    /// Runs asynchronous handlers by this function, such as `move |future| drop(handle.spawn(future))` with a handle of tokio.
    /// Without it the threads of the pool run them.
    pub fn executor(mut self, spawn: impl Fn(BoxFuture<()>) + Send + Sync + 'static) -> ServerBuilder {
        self.spawn = Some(Arc::new(spawn));
        self
    }

    /// Demands TLS 1.3 of clients; their certificates, too, if the configuration does. Handlers see a client's
    /// certificate by [`Request::peer`](crate::Request::peer). The memory keys of a session travel inside TLS.
    /// With a [`shared_key`](ServerBuilder::shared_key) besides, the client chooses one of both.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, config: Arc<rustls::ServerConfig>) -> ServerBuilder {
        self.demands.tls = Some(config);
        self
    }

    /// Demands of clients that they have this secret, and proves to them that the server has it. The memory keys of a
    /// session are visible on the wire.
    #[cfg(feature = "shared-key")]
    pub fn shared_key(mut self, secret: crate::auth::SharedSecret) -> ServerBuilder {
        self.demands.key = Some(secret);
        self
    }

    /// Runs this function with the span of each call and the metadata of its request, before the handler runs. It can
    /// give the span a parent, such as by `tracing-opentelemetry` and the context in the metadata.
    #[cfg(feature = "tracing")]
    pub fn on_span(mut self, run: impl Fn(&tracing::Span, &crate::Metadata) + Send + Sync + 'static) -> ServerBuilder {
        self.on_span = Some(Arc::new(run));
        self
    }

    /// Listens at an address and starts the threads.
    ///
    /// # Errors
    /// [`Code::Unavailable`](crate::Code::Unavailable) if the address is in use or no device's, or the system gives no
    /// threads or memory.
    pub fn bind(self, address: impl Into<Target>) -> Result<Server, Status> {
        let listener = Listener::bind(address).wait(BIND).map_err(unavailable)?;
        let device = listener.open_device().map_err(unavailable)?;
        let executors = Executors::new(self.spawn, self.options.pool_threads).map_err(unavailable)?;
        // All polling threads share it, so that published bytes are registered once.
        let domain = device.protection_domain().map_err(unavailable)?;
        let (router, options) = (Arc::new(self.router), Arc::new(self.options));
        let local_addr = listener.local_addr();
        let mut workers = Vec::new();
        for number in 0..options.threads.max(1) {
            let receives = device.limits().max_srq_wr.min(4096);
            let datagrams = device.limits().max_qp_wr.min(4096);
            let sizes = PortSizes { receives, datagrams, send_depth: 256 };
            let port = Port::new(&domain, sizes).map_err(unavailable)?;
            let alarm = Alarm::new().map_err(unavailable)?;
            let (inbox, receiver) = WorkerInbox::new(&alarm);
            let figures = Arc::new(WorkerFigures::default());
            let observer = ServerObserver::new(local_addr);
            #[cfg(feature = "tracing")]
            let observer = observer.on_span(self.on_span.clone());
            let serving = Serving {
                router: Arc::clone(&router),
                executors: executors.clone(),
                inbox: inbox.clone(),
                reply: Vec::new(),
                observer,
                elsewhere: 0,
            };
            let worker = ServerWorker::new(
                port,
                Arc::clone(&options),
                self.demands.clone(),
                serving,
                receiver,
                alarm,
                Arc::clone(&figures),
            );
            let thread = spawn_named(format!("rpc-poll-{number}"), move || worker.run())?;
            workers.push(WorkerHandle { inbox, figures, thread: Some(thread) });
        }
        let stopping = Arc::new(AtomicBool::new(false));
        let inboxes: Vec<WorkerInbox> = workers.iter().map(|worker| worker.inbox.clone()).collect();
        let until = Arc::clone(&stopping);
        let acceptor = spawn_named("rpc-accept".into(), move || accept(&listener, &inboxes, &until))?;
        Ok(Server { local_addr, workers, acceptor: Some(acceptor), stopping })
    }
}

fn spawn_named(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Status> {
    thread::Builder::new().name(name).spawn(run).map_err(unavailable)
}

/// Hands connections to the workers in turn.
fn accept(listener: &Listener, inboxes: &[WorkerInbox], stopping: &AtomicBool) {
    let mut turn = 0;
    while !stopping.load(Ordering::Acquire) {
        if let Ok(incoming) = listener.incoming().wait(ACCEPT) {
            inboxes[turn % inboxes.len()].send(ToWorker::Accept(Box::new(incoming)));
            turn += 1;
        }
    }
}

struct WorkerHandle {
    inbox: WorkerInbox,
    figures: Arc<WorkerFigures>,
    thread: Option<JoinHandle<()>>,
}

/// A server that runs. Dropping it ends all sessions at once.
pub struct Server {
    local_addr: SocketAddr,
    workers: Vec<WorkerHandle>,
    acceptor: Option<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
}

/// Figures of a server, since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// Sessions now.
    pub sessions: u64,
    /// Sessions that began.
    pub accepted: u64,
    /// Requests that reached the server once.
    pub requests: u64,
    /// Requests that arrived again, and were not executed again. Of sessions that have ended.
    pub repeated: u64,
    /// Messages that no honest client sends. Of sessions that have ended.
    pub malformed: u64,
    /// Clients that did not prove who they are, as the server demands. They got no session.
    pub unauthenticated: u64,
    /// Requests whose deadline had passed before their handler ran. Of sessions that have ended.
    pub late: u64,
    /// Requests that were withdrawn before their handler ran. Of sessions that have ended.
    pub cancelled: u64,
    /// Datagrams to no session; and, of sessions that have ended, those that fitted no request.
    pub dropped: u64,
}

impl Server {
    /// Starts a server without services.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The address at which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Its figures.
    pub fn stats(&self) -> ServerStats {
        let sum = |figure: fn(&WorkerFigures) -> &std::sync::atomic::AtomicU64| {
            self.workers.iter().map(|worker| figure(&worker.figures).load(Ordering::Relaxed)).sum()
        };
        ServerStats {
            sessions: sum(|figures| &figures.sessions),
            accepted: sum(|figures| &figures.accepted),
            requests: sum(|figures| &figures.requests),
            repeated: sum(|figures| &figures.repeated),
            malformed: sum(|figures| &figures.malformed),
            unauthenticated: sum(|figures| &figures.unauthenticated),
            late: sum(|figures| &figures.late),
            cancelled: sum(|figures| &figures.cancelled),
            dropped: sum(|figures| &figures.dropped),
        }
    }

    /// Waits until the server ends, which it does not by itself.
    pub fn wait(mut self) {
        for worker in &mut self.workers {
            worker.thread.take().map(JoinHandle::join);
        }
    }

    /// Takes no more requests, answers those that it has, and ends. Requests that still come are refused as not executed.
    /// Returns true if all were answered within `timeout`; after that the server ends all the same.
    pub fn shut_down(mut self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        self.workers.iter().for_each(|worker| worker.inbox.send(ToWorker::Drain));
        self.stop_accepting();
        let is_done = |worker: &WorkerHandle| worker.thread.as_ref().is_none_or(JoinHandle::is_finished);
        while !self.workers.iter().all(is_done) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        self.workers.iter().all(is_done)
    }

    fn stop_accepting(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.acceptor.take().map(JoinHandle::join);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_accepting();
        for worker in &mut self.workers {
            worker.inbox.send(ToWorker::Stop);
            worker.thread.take().map(JoinHandle::join);
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({}, {} polling threads)", self.local_addr, self.workers.len())
    }
}

fn unavailable(why: impl ToString) -> Status {
    Status::unavailable(why.to_string()).with_executed(crate::code::Executed::No)
}
