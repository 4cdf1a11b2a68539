//! Regions of a memory server, as a program uses them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm::error::WorkError;
use longarm::{Buffer, Connection, Failure, KeyError, RemoteKey, ResourceError, Route};
use longarm_rpc::{Client, ClientOptions, Code, Status};
use parking_lot::Mutex;

use crate::exposure::connection_data;
use crate::proof::{ProofBytes, ProofEnd, ProofSecret};
use crate::regions::protocol::{
    ASK, AskRequest, BEGIN, LeaseReply, LeaseRequest, NamedRegionInfo, PROTOCOL, PURPOSE, PieceLife, RegionAnswer,
    RegionAsk, RegionProof, RegionRole, decode, encode, subject,
};

/// Bytes of one READ or WRITE.
const CHUNK: usize = 1 << 20;
/// The pause between two questions whether the server has the connection, too.
const PAUSE: Duration = Duration::from_micros(100);

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct MemoryClientOptions {
    /// The time that an operation may take.
    pub timeout: Duration,
    /// Settings of its RPC session.
    pub rpc: ClientOptions,
}

impl Default for MemoryClientOptions {
    fn default() -> MemoryClientOptions {
        MemoryClientOptions { timeout: Duration::from_secs(5), rpc: ClientOptions::default() }
    }
}

/// The reason why an operation on a region failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The server refused it, or does not answer.
    #[error(transparent)]
    Server(#[from] Status),
    /// The server said nothing for a lease's time, or was told nothing: pieces of this client may belong to others.
    #[error("the client's lease has ended: connect again")]
    LeaseEnded,
    /// The place is not inside the region, or no multiple of 8.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The region was opened for reading only.
    #[error("the region was opened for reading only")]
    ReadOnly,
    /// The server does not have the secret.
    #[error("the server did not prove that it has the secret")]
    WrongServer,
    /// A READ, WRITE or atomic failed, and with it the connection: the region was dropped or closed, or the server has ended.
    #[error("the connection failed: {0}")]
    Link(#[from] WorkError),
    /// There is no memory for a buffer.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// There is no connection for data.
    #[error("no connection to the server's memory: {0}")]
    NotConnected(String),
}

/// A client of a memory server: its right to regions, and one connection for their data.
///
/// Threads may share it. Its lease is renewed by each operation on it or on its regions, if a third of it has passed. A program that
/// does nothing for longer calls [`renew`](MemoryClient::renew).
#[derive(Clone)]
pub struct MemoryClient {
    shared: Arc<ClientCore>,
}

struct ClientCore {
    began: LeaseReply,
    options: MemoryClientOptions,
    connection: Connection,
    rpc: Mutex<ClientRpc>,
}

struct ClientRpc {
    client: Client,
    renewed: Instant,
}

impl MemoryClient {
    /// Connects to the server at an address.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn connect(address: &str, options: MemoryClientOptions) -> Result<MemoryClient, RegionError> {
        let mut client = Client::connect(address, &options.rpc)?;
        let began = client.call(BEGIN, &encode(&LeaseRequest { protocol: PROTOCOL }), options.timeout)?;
        let began: LeaseReply = decode(&began)?;
        let connection = connect(address, &began, options.timeout)?;
        let rpc = Mutex::new(ClientRpc { client, renewed: Instant::now() });
        Ok(MemoryClient { shared: Arc::new(ClientCore { began, options, connection, rpc }) })
    }

    /// Proves that this client owns the regions of a tenant, and that the server knows the secret, too.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn own(&self, tenant: &str, secret: &ProofSecret) -> Result<(), RegionError> {
        let proof = self.shared.prove(secret, tenant)?;
        match self.shared.ask(RegionAsk::Own { tenant, proof })? {
            RegionAnswer::Owned(answer) if self.shared.is_right(secret, tenant, &proof.nonce, &answer) => Ok(()),
            _ => Err(RegionError::WrongServer),
        }
    }

    /// Makes a region of zeros, for an owner. It stays until an owner drops it.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn create(&self, tenant: &str, name: &str, len_bytes: u64) -> Result<(), RegionError> {
        self.shared.ask(RegionAsk::Create { tenant, name, len_bytes }).map(drop)
    }

    /// Drops a region, for an owner: all keys to it are dead when this returns.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn drop_region(&self, tenant: &str, name: &str) -> Result<(), RegionError> {
        self.shared.ask(RegionAsk::Drop { tenant, name }).map(drop)
    }

    /// The regions of a tenant, in the order of their names, for an owner.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn list(&self, tenant: &str) -> Result<Vec<NamedRegionInfo>, RegionError> {
        match self.shared.ask(RegionAsk::List { tenant })? {
            RegionAnswer::Listed(regions) => Ok(regions),
            _ => Err(other_answer()),
        }
    }

    /// Opens a region: with the secret of its readers or writers ([`ProofSecret::of_region`]), or for an owner without one.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn open(
        &self,
        tenant: &str,
        name: &str,
        role: RegionRole,
        secret: Option<&ProofSecret>,
    ) -> Result<RemoteRegion, RegionError> {
        let (core, subject) = (&self.shared, subject(tenant, name, role));
        let proof = secret.map(|secret| core.prove(secret, &subject)).transpose()?;
        let RegionAnswer::Opened { window, len_bytes, proof: answer } =
            core.ask(RegionAsk::Open { tenant, name, role, proof })?
        else {
            return Err(other_answer());
        };
        if let (Some(secret), Some(proof)) = (secret, proof)
            && !answer.is_some_and(|answer| core.is_right(secret, &subject, &proof.nonce, &answer))
        {
            return Err(RegionError::WrongServer);
        }
        let key = core.key(window)?;
        if key.len_bytes() != len_bytes {
            return Err(other_answer());
        }
        Ok(RemoteRegion { core: Arc::clone(core), window, key, role, buffer: Mutex::new(None) })
    }

    /// Renews the lease.
    ///
    /// # Errors
    /// [`RegionError::LeaseEnded`] if it was too late.
    pub fn renew(&self) -> Result<(), RegionError> {
        self.shared.ask(RegionAsk::Renew).map(drop)
    }

    /// The time that the server waits for a sign of life.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.shared.began.lease_ms)
    }
}

fn other_answer() -> RegionError {
    RegionError::Server(Status::internal("the server gave another answer"))
}

fn connect(address: &str, began: &LeaseReply, timeout: Duration) -> Result<Connection, RegionError> {
    let refused = |error: &dyn std::fmt::Display| RegionError::NotConnected(error.to_string());
    let mut server = Route::to(address).wait(timeout).map_err(|error| refused(&error))?.peer_addr();
    server.set_port(began.data_port);
    let device = Route::to(server).wait(timeout).and_then(|route| Ok(route.open_device()?));
    let domain = device.map_err(|error| refused(&error))?.protection_domain()?;
    let queue = domain.device().completion_queue()?;
    let connecting = longarm::connect(server, domain.rc(&queue), &connection_data(&began.token, 0));
    connecting.wait(timeout).map_err(|error| refused(&error))
}

impl ClientCore {
    fn ask(&self, ask: RegionAsk<'_>) -> Result<RegionAnswer, RegionError> {
        self.ask_with(&mut self.rpc.lock(), ask)
    }

    fn ask_with(&self, rpc: &mut ClientRpc, ask: RegionAsk<'_>) -> Result<RegionAnswer, RegionError> {
        // The lease runs at the server from a moment after this one.
        let asked = Instant::now();
        let request = encode(&AskRequest { token: self.began.token, ask });
        match rpc.client.call(ASK, &request, self.options.timeout) {
            Ok(answer) => {
                rpc.renewed = asked;
                Ok(decode(&answer)?)
            }
            Err(status) if status.code() == Code::Aborted => Err(RegionError::LeaseEnded),
            Err(status) => Err(status.into()),
        }
    }

    /// Renews the lease if it is time, unless another thread is just asking something.
    fn keep(&self) -> Result<(), RegionError> {
        if let Some(mut rpc) = self.rpc.try_lock()
            && rpc.renewed.elapsed() > Duration::from_millis(self.began.lease_ms / 3)
        {
            self.ask_with(&mut rpc, RegionAsk::Renew)?;
        }
        Ok(())
    }

    fn prove(&self, secret: &ProofSecret, subject: &str) -> Result<RegionProof, RegionError> {
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(|error| Status::internal(error.to_string()))?;
        let proof = secret.proof(PURPOSE, ProofEnd::Client, subject, (&self.began.nonce, &nonce));
        Ok(RegionProof { nonce, proof })
    }

    fn is_right(&self, secret: &ProofSecret, subject: &str, nonce: &ProofBytes, answer: &ProofBytes) -> bool {
        secret.is_proof(PURPOSE, ProofEnd::Server, subject, (&self.began.nonce, nonce), answer)
    }

    /// The key of a window, as soon as the server has the connection, too.
    fn key(&self, window: u32) -> Result<RemoteKey, RegionError> {
        let until = Instant::now() + self.options.timeout;
        loop {
            match self.ask(RegionAsk::Find { window })? {
                RegionAnswer::Found(Some(key)) => return Ok(RemoteKey::from_bytes(&key)?),
                RegionAnswer::Found(None) if self.connection.is_connected() && Instant::now() < until => {
                    std::thread::sleep(PAUSE);
                }
                _ => return Err(RegionError::NotConnected("the server has not accepted it".into())),
            }
        }
    }
}

impl Drop for ClientCore {
    /// Gives everything back. A server that does not answer waits for the end of the lease.
    fn drop(&mut self) {
        let request = encode(&AskRequest { token: self.began.token, ask: RegionAsk::End });
        let _ = self.rpc.get_mut().client.call(ASK, &request, self.options.timeout.min(Duration::from_millis(100)));
    }
}

/// A region of a memory server. Data goes by READ, WRITE and atomics, without the server's program. All bounds are checked
/// here, and by the server's device.
///
/// Dropping it closes the region for this client.
pub struct RemoteRegion {
    core: Arc<ClientCore>,
    window: u32,
    key: RemoteKey,
    role: RegionRole,
    buffer: Mutex<Option<Buffer>>,
}

impl RemoteRegion {
    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.key.len_bytes()
    }

    /// Its key, which is good for this client's connection only.
    pub fn key(&self) -> RemoteKey {
        self.key
    }

    /// Copies bytes from the region, from `at` on, into all of `out`: one READ for each MiB.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<(), RegionError> {
        self.key.at(at, out.len() as u64)?;
        self.core.keep()?;
        for (number, part) in out.chunks_mut(CHUNK).enumerate() {
            let from = self.key.at(at + (number * CHUNK) as u64, part.len() as u64)?;
            let mut buffer = self.take(part.len())?;
            buffer.set_len(part.len());
            let read = self.core.connection.read(buffer, &from).wait(self.core.options.timeout);
            let buffer = read.map_err(Failure::into_error)?;
            part.copy_from_slice(&buffer);
            *self.buffer.lock() = Some(buffer);
        }
        Ok(())
    }

    /// Copies bytes to the region, from `at` on: one WRITE for each MiB. They are there when this returns.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), RegionError> {
        self.key.at(at, bytes.len() as u64)?;
        self.must_write()?;
        for (number, part) in bytes.chunks(CHUNK).enumerate() {
            let to = self.key.at(at + (number * CHUNK) as u64, part.len() as u64)?;
            let mut buffer = self.take(part.len())?;
            buffer.fill_from(part);
            let written = self.core.connection.write(buffer, &to).wait(self.core.options.timeout);
            *self.buffer.lock() = Some(written.map_err(Failure::into_error)?);
        }
        Ok(())
    }

    /// Adds to the word of 8 bytes at `at`, wrapping, and returns the value before.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn fetch_add(&self, at: u64, add: u64) -> Result<u64, RegionError> {
        let word = self.word(at)?;
        let before = self.core.connection.fetch_add(&word, add).wait(self.core.options.timeout);
        Ok(before.map_err(Failure::into_error)?)
    }

    /// Stores `swap` in the word at `at` if it holds `compare`, and returns the value before.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> Result<u64, RegionError> {
        let word = self.word(at)?;
        let before = self.core.connection.compare_swap(&word, compare, swap).wait(self.core.options.timeout);
        Ok(before.map_err(Failure::into_error)?)
    }

    /// A piece of zeros in the region, at a multiple of 64; its place. The server keeps the notes. Other writers of the
    /// region can write there, too: pieces only keep those apart that ask for them.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn allocate(&self, len_bytes: u64, life: PieceLife) -> Result<u64, RegionError> {
        match self.core.ask(RegionAsk::Allocate { window: self.window, len_bytes, life })? {
            RegionAnswer::Allocated(at) => {
                self.key.at(at, len_bytes)?;
                Ok(at)
            }
            _ => Err(other_answer()),
        }
    }

    /// Gives a piece back: one of this client, or one that belongs to the region.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn free(&self, at: u64) -> Result<(), RegionError> {
        self.core.ask(RegionAsk::Free { window: self.window, at }).map(drop)
    }

    fn word(&self, at: u64) -> Result<RemoteKey, RegionError> {
        let word = self.key.word(at)?;
        if !at.is_multiple_of(8) {
            return Err(KeyError::Misaligned { offset: at }.into());
        }
        self.must_write()?;
        Ok(word)
    }

    fn must_write(&self) -> Result<(), RegionError> {
        match self.role {
            RegionRole::Reader => Err(RegionError::ReadOnly),
            RegionRole::Writer => self.core.keep(),
        }
    }

    fn take(&self, len: usize) -> Result<Buffer, RegionError> {
        let known = self.buffer.lock().take().filter(|buffer| buffer.capacity() >= len);
        match known {
            Some(buffer) => Ok(buffer),
            None => Ok(self.core.connection.protection_domain().allocate(len.max(4096))?),
        }
    }
}

impl Drop for RemoteRegion {
    fn drop(&mut self) {
        let _ = self.core.ask(RegionAsk::Close { window: self.window });
    }
}

impl std::fmt::Debug for RemoteRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteRegion({} bytes, {})", self.len_bytes(), self.role.name())
    }
}

impl std::fmt::Debug for MemoryClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryClient(to {})", self.shared.connection.peer_addr())
    }
}
