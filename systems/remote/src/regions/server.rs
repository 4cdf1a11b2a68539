//! The memory server: one region of registered memory, its clients' windows, and their leases.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longarm::{Access, MemoryRegion};
use longarm_rpc::{Methods, Server, ServerOptions, Status};
use parking_lot::Mutex;

use crate::exposure::{ConnectionToken, WindowKeeper, WindowSpec};
use crate::proof::{ProofBytes, ProofEnd, ProofSecret};
use crate::regions::protocol::{
    ASK, AskRequest, BEGIN, LeaseReply, LeaseRequest, PROTOCOL, PURPOSE, PieceLife, RegionAnswer, RegionAsk,
    RegionProof, RegionRole, SERVICE, decode, encode, malformed, subject,
};
use crate::regions::sessions::{MemorySessions, OpenRegion};
use crate::regions::store::{RegionStore, TenantOptions};

/// Time between two looks at leases.
const HOUSEKEEPING: Duration = Duration::from_millis(20);
/// Bytes that are zeroed in one copy.
const ZEROS: usize = 1 << 20;

/// Settings of a memory server.
#[derive(Clone, Debug)]
pub struct MemoryServerOptions {
    /// Its memory, in bytes: one registration, on huge pages if the machine has enough of them reserved.
    pub memory_bytes: u64,
    /// A client that says nothing for so long has ended: its windows are closed, and its pieces go back.
    pub lease: Duration,
    /// Pieces that one client has at a time.
    pub client_pieces: u64,
    /// Settings of the RPC server.
    pub rpc: ServerOptions,
}

impl Default for MemoryServerOptions {
    fn default() -> MemoryServerOptions {
        MemoryServerOptions {
            memory_bytes: 1 << 30,
            lease: Duration::from_secs(10),
            client_pieces: 1 << 16,
            rpc: ServerOptions::default(),
        }
    }
}

/// The figures of a memory server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryServerFigures {
    /// Bytes that it has.
    pub memory_bytes: u64,
    /// Bytes in regions.
    pub used_bytes: u64,
    /// Regions of all tenants.
    pub regions: u64,
    /// Clients with a lease.
    pub clients: u64,
    /// Clients whose lease has ended.
    pub expired: u64,
    /// Requests that were refused.
    pub refused: u64,
}

/// Tenants and settings of a server to be.
#[must_use = "`bind` starts the server"]
pub struct MemoryServerBuilder {
    options: MemoryServerOptions,
    tenants: Vec<(String, TenantOptions)>,
}

impl MemoryServerBuilder {
    /// Adds a tenant. Without any there is one called `default`, whose regions everybody owns.
    pub fn tenant(mut self, name: impl Into<String>, options: TenantOptions) -> MemoryServerBuilder {
        self.tenants.push((name.into(), options));
        self
    }

    /// Allocates the memory, listens at an address, `host:port`, and starts the threads. Another port, which the system chooses,
    /// is for connections for data.
    ///
    /// # Errors
    /// If there is no memory or no device, or the address is in use.
    pub fn bind(mut self, address: &str) -> Result<MemoryServer, Status> {
        let start = |error: &dyn std::fmt::Display| Status::unavailable(error.to_string());
        if self.tenants.is_empty() {
            self.tenants.push(("default".into(), TenantOptions::default()));
        }
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let keeper = WindowKeeper::bind(host, 0).map_err(|error| start(&error))?;
        let len = usize::try_from(self.options.memory_bytes).map_err(|error| start(&error))?;
        // Nobody gets the key of all memory: rights come from windows.
        let memory = keeper.domain().expose(len, Access::empty()).map_err(|error| start(&error))?;
        let state = ServerState {
            store: RegionStore::new(self.options.memory_bytes, self.tenants),
            sessions: MemorySessions::default(),
        };
        let core = Arc::new(ServerCore {
            keeper,
            memory: Arc::new(memory),
            state: Mutex::new(state),
            options: self.options.clone(),
            expired: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        });
        let rpc = Server::builder().options(self.options.rpc).add_service(methods(&core))?.bind(address)?;
        let run = {
            let core = Arc::clone(&core);
            move || core.run()
        };
        let thread = thread::Builder::new().name("memory-accept".into()).spawn(run).map_err(|error| start(&error))?;
        Ok(MemoryServer { rpc: Some(rpc), core, thread: Some(thread) })
    }
}

/// A memory server that runs. Dropping it ends it at once.
///
/// ```no_run
/// use longarm_remote::{MemoryClient, MemoryClientOptions, MemoryServer, MemoryServerOptions, RegionRole};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = MemoryServer::builder(MemoryServerOptions::default()).bind("0.0.0.0:7490")?;
///
/// let client = MemoryClient::connect("127.0.0.1:7490", MemoryClientOptions::default())?;
/// client.create("default", "counters", 4096)?;
/// let counters = client.open("default", "counters", RegionRole::Writer, None)?;
/// assert_eq!(counters.fetch_add(8, 5)?, 0);
/// # drop(server);
/// # Ok(())
/// # }
/// ```
pub struct MemoryServer {
    rpc: Option<Server>,
    core: Arc<ServerCore>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryServer {
    /// Starts a server without tenants.
    pub fn builder(options: MemoryServerOptions) -> MemoryServerBuilder {
        MemoryServerBuilder { options, tenants: Vec::new() }
    }

    /// The address at which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.rpc.as_ref().map_or(SocketAddr::from(([0; 4], 0)), Server::local_addr)
    }

    /// Its figures.
    pub fn figures(&self) -> MemoryServerFigures {
        let state = self.core.state.lock();
        MemoryServerFigures {
            memory_bytes: self.core.options.memory_bytes,
            used_bytes: state.store.used_bytes(),
            regions: state.store.regions() as u64,
            clients: state.sessions.len() as u64,
            expired: self.core.expired.load(Ordering::Relaxed),
            refused: self.core.refused.load(Ordering::Relaxed),
        }
    }

    /// Waits until the server ends, which it does not by itself.
    pub fn wait(mut self) {
        if let Some(rpc) = self.rpc.take() {
            rpc.wait();
        }
    }
}

impl Drop for MemoryServer {
    fn drop(&mut self) {
        self.core.stopping.store(true, Ordering::Release);
        self.rpc = None;
        self.thread.take().map(JoinHandle::join);
    }
}

impl std::fmt::Debug for MemoryServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryServer({}, {:?})", self.local_addr(), self.figures())
    }
}

struct ServerState {
    store: RegionStore,
    sessions: MemorySessions,
}

struct ServerCore {
    keeper: WindowKeeper,
    memory: Arc<MemoryRegion>,
    state: Mutex<ServerState>,
    options: MemoryServerOptions,
    expired: AtomicU64,
    refused: AtomicU64,
    stopping: AtomicBool,
}

fn methods(core: &Arc<ServerCore>) -> Methods {
    let (begin, ask) = (Arc::clone(core), Arc::clone(core));
    Methods::new(SERVICE).direct(BEGIN, move |request, reply| begin.answer(begin.begin(request), reply)).direct(
        ASK,
        move |request, reply| {
            let answer = match postcard::from_bytes::<AskRequest<'_>>(request) {
                Ok(AskRequest { token, ask: question }) => ask.ask(&token, question),
                Err(_) => Err(malformed()),
            };
            ask.answer(answer, reply)
        },
    )
}

impl ServerCore {
    fn run(&self) {
        let (began, mut kept) = (Instant::now(), Instant::now());
        while !self.stopping.load(Ordering::Acquire) {
            self.keeper.step(HOUSEKEEPING);
            if kept.elapsed() >= HOUSEKEEPING {
                kept = Instant::now();
                self.end_overdue();
                self.keeper.connected();
                self.state.lock().store.set_now(began.elapsed().as_nanos() as u64);
            }
        }
    }

    fn end_overdue(&self) {
        let overdue = self.state.lock().sessions.overdue(self.options.lease);
        for token in overdue {
            self.end(&token);
            self.expired.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Closes a client's windows, and gives its pieces back: in this order.
    fn end(&self, token: &ConnectionToken) {
        let ended = self.state.lock().sessions.end(token);
        self.keeper.revoke(token);
        if let Some(session) = ended {
            self.state.lock().store.end_session(session.number);
        }
    }

    fn answer<T: serde::Serialize>(&self, answer: Result<T, Status>, reply: &mut Vec<u8>) -> Result<(), Status> {
        match answer {
            Ok(answer) => {
                reply.extend_from_slice(&encode(&answer));
                Ok(())
            }
            Err(status) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(status)
            }
        }
    }

    fn begin(&self, request: &[u8]) -> Result<LeaseReply, Status> {
        let request: LeaseRequest = decode(request)?;
        if request.protocol != PROTOCOL {
            let words = format!("the client speaks version {}, the server {PROTOCOL}", request.protocol);
            return Err(Status::invalid_argument(words));
        }
        let (token, nonce) = self.state.lock().sessions.begin()?;
        if let Err(error) = self.keeper.allow(token) {
            self.end(&token);
            return Err(Status::unavailable(error.to_string()));
        }
        let lease_ms = u64::try_from(self.options.lease.as_millis()).unwrap_or(u64::MAX);
        Ok(LeaseReply { token, nonce, data_port: self.keeper.local_addr().port(), lease_ms })
    }

    fn ask(&self, token: &ConnectionToken, ask: RegionAsk<'_>) -> Result<RegionAnswer, Status> {
        // Each request renews the lease.
        self.state.lock().sessions.find(token)?;
        match ask {
            RegionAsk::Renew => {}
            RegionAsk::End => self.end(token),
            RegionAsk::Own { tenant, proof } => return self.own(token, tenant, proof).map(RegionAnswer::Owned),
            RegionAsk::Create { tenant, name, len_bytes } => self.create(token, tenant, name, len_bytes)?,
            RegionAsk::Drop { tenant, name } => self.drop_region(token, tenant, name)?,
            RegionAsk::List { tenant } => {
                let mut state = self.owned(token, tenant)?;
                let ServerState { store, sessions } = &mut *state;
                return Ok(RegionAnswer::Listed(store.list(tenant, |region| sessions.users(region))?));
            }
            RegionAsk::Open { tenant, name, role, proof } => return self.open(token, (tenant, name, role), proof),
            RegionAsk::Find { window } => {
                let found = self.keeper.find(token, window);
                return Ok(RegionAnswer::Found(found.map(|found| found.key.to_bytes().to_vec())));
            }
            RegionAsk::Close { window } => {
                self.state.lock().sessions.find(token)?.open.remove(&window);
                self.keeper.close(token, window);
            }
            RegionAsk::Allocate { window, len_bytes, life } => {
                return self.allocate(token, window, len_bytes, life).map(RegionAnswer::Allocated);
            }
            RegionAsk::Free { window, at } => {
                let mut state = self.state.lock();
                let session = state.sessions.find(token)?;
                let (region, number) = (session.writable(window)?, session.number);
                state.store.free(region, at, number)?;
                let session = state.sessions.find(token)?;
                session.pieces = session.pieces.saturating_sub(1);
            }
        }
        Ok(RegionAnswer::Done)
    }

    /// The state, for a client that owns the tenant's regions.
    fn owned(&self, token: &ConnectionToken, tenant: &str) -> Result<parking_lot::MutexGuard<'_, ServerState>, Status> {
        let mut state = self.state.lock();
        let is_open = state.store.secret(tenant)?.is_none();
        if is_open || state.sessions.find(token)?.owned.contains(tenant) {
            return Ok(state);
        }
        Err(Status::permission_denied("the client did not prove that it has the owner's secret"))
    }

    fn own(&self, token: &ConnectionToken, tenant: &str, proof: RegionProof) -> Result<ProofBytes, Status> {
        let mut state = self.state.lock();
        let secret = state.store.secret(tenant)?.cloned();
        let secret = secret.ok_or_else(|| Status::failed_precondition("the tenant has no secret"))?;
        let session = state.sessions.find(token)?;
        let answer = check(&secret, tenant, &session.nonce, proof)?;
        session.owned.insert(tenant.into());
        Ok(answer)
    }

    fn create(&self, token: &ConnectionToken, tenant: &str, name: &str, len_bytes: u64) -> Result<(), Status> {
        let mut state = self.owned(token, tenant)?;
        let place = state.store.create(tenant, name, len_bytes)?;
        // With the lock: nobody opens it before.
        self.zero(place);
        Ok(())
    }

    fn zero(&self, place: Range<u64>) {
        let zeros = vec![0; ZEROS];
        for at in place.clone().step_by(ZEROS) {
            let len = (place.end - at).min(ZEROS as u64) as usize;
            // The store gives no place outside of the memory.
            let _ = self.memory.copy_in(at, &zeros[..len]);
        }
    }

    fn drop_region(&self, token: &ConnectionToken, tenant: &str, name: &str) -> Result<(), Status> {
        let mut state = self.owned(token, tenant)?;
        let region = state.store.find(tenant, name)?.number;
        for (token, window) in state.sessions.close_region(region) {
            self.keeper.close(&token, window);
        }
        state.store.drop_region(tenant, name).map(drop)
    }

    fn open(
        &self,
        token: &ConnectionToken,
        (tenant, name, role): (&str, &str, RegionRole),
        proof: Option<RegionProof>,
    ) -> Result<RegionAnswer, Status> {
        let (mut state, answer) = match proof {
            None => (self.owned(token, tenant)?, None),
            Some(proof) => {
                let mut state = self.state.lock();
                let secret = state.store.secret(tenant)?.map(|owner| owner.of_region(tenant, name, role));
                let secret = secret.ok_or_else(|| Status::failed_precondition("the tenant has no secret"))?;
                let nonce = state.sessions.find(token)?.nonce;
                let answer = check(&secret, &subject(tenant, name, role), &nonce, proof)?;
                (state, Some(answer))
            }
        };
        let region = state.store.find(tenant, name)?;
        let (number, range) = (region.number, region.range.clone());
        let window = state.sessions.find(token)?.add(OpenRegion { region: number, role })?;
        let writing = Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let access = Access::REMOTE_READ | if role == RegionRole::Writer { writing } else { Access::empty() };
        let spec = WindowSpec { region: Arc::clone(&self.memory), range: range.clone(), access };
        // With the lock: nobody drops the region meanwhile.
        if let Err(error) = self.keeper.open(token, window, spec) {
            state.sessions.find(token)?.open.remove(&window);
            return Err(Status::unavailable(error.to_string()));
        }
        Ok(RegionAnswer::Opened { window, len_bytes: range.end - range.start, proof: answer })
    }

    fn allocate(&self, token: &ConnectionToken, window: u32, len_bytes: u64, life: PieceLife) -> Result<u64, Status> {
        let mut state = self.state.lock();
        let session = state.sessions.find(token)?;
        let (region, number) = (session.writable(window)?, session.number);
        if session.pieces >= self.options.client_pieces {
            return Err(Status::resource_exhausted(format!("the client has {} pieces, its bound", session.pieces)));
        }
        let (at, place) = state.store.allocate(region, len_bytes, life, number)?;
        state.sessions.find(token)?.pieces += 1;
        self.zero(place);
        Ok(at)
    }
}

/// Checks the client's half of a proof, and makes the server's.
fn check(secret: &ProofSecret, subject: &str, nonce: &ProofBytes, proof: RegionProof) -> Result<ProofBytes, Status> {
    let nonces = (nonce, &proof.nonce);
    if !secret.is_proof(PURPOSE, ProofEnd::Client, subject, nonces, &proof.proof) {
        return Err(Status::unauthenticated("the client did not prove that it has the secret"));
    }
    Ok(secret.proof(PURPOSE, ProofEnd::Server, subject, nonces))
}
