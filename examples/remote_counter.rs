//! A counter that other processes increment while its owner sleeps.
//!
//! Shows memory exposed under a key, one-sided READ and FETCH-ADD, and that the
//! owner's program takes no part in them.

mod roles;

use longarm::{Access, Connection, Endpoint, InFlight, Listener, Message, RemoteKey};
use roles::{Args, PATIENCE, Result, Role};

const HELP: &str = "\
A counter in the memory of one process, which others read and add to.

  remote_counter                          the owner and two others, in three processes
  remote_counter --listen 0.0.0.0:7471    the owner
  remote_counter --connect HOST:7471      one of the others

  --others N    how many the owner waits for (2)
  --adds N      how often each adds one (1000)";

fn main() -> Result<()> {
    let args = Args::parse(HELP, &["--listen", "--connect", "--others", "--adds"])?;
    let others = args.get("--others", 2)?;
    match args.role() {
        Role::Listen(address) => own(&Listener::bind(address).wait(PATIENCE)?, others),
        Role::Connect(address) => count(&address, args.get("--adds", 1000)?),
        Role::Both => {
            let listener = Listener::bind(roles::any_port()?).wait(PATIENCE)?;
            let address = listener.local_addr();
            let started: Result<Vec<_>> = (0..others).map(|_| args.start_client(address)).collect();
            own(&listener, others)?;
            started?.into_iter().try_for_each(|other| other.finish())
        }
    }
}

/// Exposes the counter, waits for the clients to finish and prints the value.
fn own(listener: &Listener, others: usize) -> Result<()> {
    let domain = listener.open_device()?.protection_domain()?;
    let cq = domain.device().completion_queue()?;

    // Eight bytes that peers may read and do atomics on, and the key to them.
    let counter = domain.expose(8, Access::REMOTE_READ | Access::REMOTE_ATOMIC)?;
    let key = counter.key().to_bytes();

    // Each client gets a connection and the key. It sends a message when it is done.
    let connect = || -> Result<(Connection, InFlight<Message>)> {
        let incoming = listener.incoming().wait(PATIENCE)?;
        let qp = domain.rc(&cq).on(&incoming.open_device()?).build()?;
        let farewell = qp.recv(domain.allocate(8)?).start();
        Ok((incoming.accept(qp, &key).wait(PATIENCE)?, farewell))
    };
    let connections: Result<Vec<_>> = (0..others).map(|_| connect()).collect();

    // This thread sleeps and takes no part in the operations on the counter.
    let mut added = 0;
    for (qp, farewell) in connections? {
        let farewell = farewell.wait(PATIENCE)?;
        println!("{} says goodbye: {}", qp.peer_addr(), String::from_utf8_lossy(&farewell));
        added += std::str::from_utf8(&farewell)?.parse::<u64>()?;
        // The client disconnects first: if the ACK of its last message was lost, it sends the message again.
        qp.disconnected().wait(PATIENCE);
    }

    let value = counter.load(0)?;
    println!("the owner wakes up and finds {value}");
    if value == added { Ok(()) } else { Err(format!("{added} were added").into()) }
}

/// Adds to the owner's counter.
fn count(address: &str, adds: u64) -> Result<()> {
    let endpoint = Endpoint::connect(address, b"").wait(PATIENCE)?;
    let counter = RemoteKey::from_bytes(&endpoint.private_data()[..RemoteKey::ENCODED_BYTES])?;

    let mut last = None;
    for _ in 0..adds {
        let before = endpoint.fetch_add(&counter, 1).wait(PATIENCE)?;
        if last.is_some_and(|last| before <= last) {
            return Err(format!("the counter went from {last:?} to {before}").into());
        }
        last = Some(before);
    }

    let seen = endpoint.read(endpoint.allocate(8)?, &counter).wait(PATIENCE)?;
    let seen = u64::from_ne_bytes(seen[..].try_into()?);
    println!("added {adds} times, and read {seen}");
    endpoint.send_inline(adds.to_string().as_bytes()).wait(PATIENCE)?;
    Ok(())
}
