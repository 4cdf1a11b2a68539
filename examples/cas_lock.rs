//! A lock made of COMPARE-AND-SWAP, in memory that no program guards.
//!
//! Shows one-sided atomics between many clients, and that the requests of one
//! connection execute in order: the WRITE of the value precedes the release of the lock.

mod roles;

use longarm::{Access, Endpoint, Listener, QueuePair, RemoteKey};
use roles::{Args, PATIENCE, Result, Role};

const HELP: &str = "\
Clients take turns at a value in another process, by a lock in that process's memory.

  cas_lock                          the memory and four clients, in five processes
  cas_lock --listen 0.0.0.0:7471    the process with the memory
  cas_lock --connect HOST:7471      one client

  --clients N    how many clients there are (4)
  --turns N      how often each increments the value (250)";

const FREE: u64 = 0;

fn main() -> Result<()> {
    let args = Args::parse(HELP, &["--listen", "--connect", "--clients", "--turns"])?;
    let (clients, turns) = (args.get("--clients", 4)?, args.get("--turns", 250)?);
    match args.role() {
        Role::Listen(address) => host(&Listener::bind(address).wait(PATIENCE)?, clients, turns),
        Role::Connect(address) => increment(&address, turns),
        Role::Both => {
            let listener = Listener::bind(roles::any_port()?).wait(PATIENCE)?;
            let address = listener.local_addr();
            let started: Result<Vec<_>> = (0..clients).map(|_| args.start_client(address)).collect();
            host(&listener, clients, turns)?;
            started?.into_iter().try_for_each(|client| client.finish())
        }
    }
}

/// Owns the memory: a lock, and the value that it protects.
fn host(listener: &Listener, clients: u64, turns: u64) -> Result<()> {
    let domain = listener.open_device()?.protection_domain()?;
    let cq = domain.device().completion_queue()?;
    let everything = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let memory = domain.expose(16, everything)?;

    let mut connections = Vec::new();
    for _ in 0..clients {
        let incoming = listener.incoming().wait(PATIENCE)?;
        let qp = domain.rc(&cq).on(&incoming.open_device()?).build()?;
        let done = qp.recv(domain.allocate(1)?).start();
        connections.push((incoming.accept(qp, &memory.key().to_bytes()).wait(PATIENCE)?, done));
    }
    for (qp, done) in connections {
        done.wait(PATIENCE)?;
        // The client disconnects first: if the ACK of its last message was lost, it sends the message again.
        qp.disconnected().wait(PATIENCE);
    }

    let (lock, value) = (memory.load(0)?, memory.load(8)?);
    println!("{clients} clients, {turns} turns each: the value is {value}");
    match (lock, value) {
        (FREE, value) if value == clients * turns => Ok(()),
        _ => Err(format!("it should be {}, and the lock free (it is {lock})", clients * turns).into()),
    }
}

/// Takes the lock, reads the value, writes the value plus one and releases the lock; `turns` times.
fn increment(address: &str, turns: u64) -> Result<()> {
    let endpoint = Endpoint::connect(address, b"").wait(PATIENCE)?;
    let memory = RemoteKey::from_bytes(&endpoint.private_data()[..RemoteKey::ENCODED_BYTES])?;
    let lock = Lock { word: memory.word(0)?, owner: endpoint.qpn().get().into() };
    let place = memory.word(8)?;

    let (mut buffer, mut attempts) = (endpoint.allocate(8)?, 0);
    for _ in 0..turns {
        attempts += lock.take(&endpoint)?;
        buffer = endpoint.read(buffer, &place).wait(PATIENCE)?;
        let value = u64::from_ne_bytes(buffer[..].try_into()?);
        buffer.copy_from_slice(&(value + 1).to_ne_bytes());
        // The WRITE needs no wait: the release follows it in order.
        let written = endpoint.write(buffer, &place).start();
        lock.release(&endpoint)?;
        buffer = written.wait(PATIENCE)?;
    }
    println!("client {}: {turns} turns, {attempts} attempts at the lock", endpoint.qpn());
    endpoint.send_inline(b"!").wait(PATIENCE)?;
    Ok(())
}

/// A word that is free or holds the number of the lock's owner.
struct Lock {
    word: RemoteKey,
    owner: u64,
}

impl Lock {
    /// Waits until this client has the lock; returns the number of attempts.
    fn take(&self, qp: &QueuePair) -> Result<u64> {
        for attempt in 1.. {
            let holder = qp.compare_swap(&self.word, FREE, self.owner).wait(PATIENCE)?;
            if holder == FREE {
                return Ok(attempt);
            }
            std::thread::yield_now();
        }
        unreachable!("attempts do not run out")
    }

    fn release(&self, qp: &QueuePair) -> Result<()> {
        let holder = qp.compare_swap(&self.word, self.owner, FREE).wait(PATIENCE)?;
        if holder == self.owner { Ok(()) } else { Err(format!("{holder} has our lock").into()) }
    }
}
