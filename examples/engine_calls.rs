//! A table of words that other processes look up and change by calls. The owner's device carries them out while the owner
//! sleeps.
//!
//! Shows the handler of a region, calls, and that each is executed once. It is an extension of Longarm's: docs/extensions.md.

mod roles;

use longarm::{Access, Connection, Endpoint, InFlight, Listener, Message, RegionCall, RemoteKey, ReplyBytes};
use roles::{Args, PATIENCE, Result, Role};

const HELP: &str = "\
A table in the memory of one process, which its device looks up and changes for others.

  engine_calls                          the owner and two others, in three processes
  engine_calls --listen 0.0.0.0:7471    the owner
  engine_calls --connect HOST:7471      one of the others

  --others N    how many the owner waits for (2)
  --calls N     how many calls each makes (1000)";

/// Places of the table: a key, and how often it was called.
const PLACES: u64 = 64;
const PLACE_BYTES: u64 = 16;

fn main() -> Result<()> {
    let args = Args::parse(HELP, &["--listen", "--connect", "--others", "--calls"])?;
    let others = args.get("--others", 2)?;
    match args.role() {
        Role::Listen(address) => own(&Listener::bind(address).wait(PATIENCE)?, others),
        Role::Connect(address) => count(&address, args.get("--calls", 1000)?),
        Role::Both => {
            let listener = Listener::bind(roles::any_port()?).wait(PATIENCE)?;
            let address = listener.local_addr();
            let started: Result<Vec<_>> = (0..others).map(|_| args.start_client(address)).collect();
            own(&listener, others)?;
            started?.into_iter().try_for_each(|other| other.finish())
        }
    }
}

/// Finds the key of the request, or a free place for it; counts, and replies with the count. Empty: no place.
fn count_key(call: &RegionCall<'_>, reply: &mut ReplyBytes) -> Option<()> {
    let key = u64::from_be_bytes(call.request().try_into().ok()?);
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    for probe in 0..PLACES {
        let place = (hash + probe) % PLACES * PLACE_BYTES;
        // Calls of several connections run at the same time: one of them gets a free place.
        let found = call.memory().compare_swap(place, 0, key).ok()?;
        if found == 0 || found == key {
            let before = call.memory().fetch_add(place + 8, 1).ok()?;
            let _ = reply.append(&(before + 1).to_be_bytes());
            return Some(());
        }
    }
    None
}

/// Serves the table, sleeps until all others are done, and prints what it finds then.
fn own(listener: &Listener, others: usize) -> Result<()> {
    let domain = listener.open_device()?.protection_domain()?;
    let cq = domain.device().completion_queue()?;

    // Peers may call, and neither read nor write.
    let table = domain.expose((PLACES * PLACE_BYTES) as usize, Access::REMOTE_CALL)?;
    let served = table.serve_calls(|call, reply| {
        let _ = count_key(call, reply);
    })?;
    let key = table.key().to_bytes();

    let connect = || -> Result<(Connection, InFlight<Message>)> {
        let incoming = listener.incoming().wait(PATIENCE)?;
        let qp = domain.rc(&cq).on(&incoming.open_device()?).build()?;
        let farewell = qp.recv(domain.allocate(8)?).start();
        Ok((incoming.accept(qp, &key).wait(PATIENCE)?, farewell))
    };
    let connections: Result<Vec<_>> = (0..others).map(|_| connect()).collect();

    // This thread sleeps. The device executes the calls.
    let mut made = 0;
    for (qp, farewell) in connections? {
        made += std::str::from_utf8(&farewell.wait(PATIENCE)?)?.parse::<u64>()?;
        // The client disconnects first: if the ACK of its last message was lost, it sends the message again.
        qp.disconnected().wait(PATIENCE);
    }
    drop(served);

    let counts: std::result::Result<Vec<u64>, _> =
        (0..PLACES).map(|place| table.load(place * PLACE_BYTES + 8)).collect();
    let counts = counts?;
    let keys = counts.iter().filter(|count| **count > 0).count();
    println!("the owner wakes up and finds {} calls of {keys} keys", counts.iter().sum::<u64>());
    if counts.iter().sum::<u64>() == made { Ok(()) } else { Err(format!("{made} calls were made").into()) }
}

/// Calls with ten keys in turn.
fn count(address: &str, calls: u64) -> Result<()> {
    let endpoint = Endpoint::connect(address, b"").wait(PATIENCE)?;
    let table = RemoteKey::from_bytes(&endpoint.private_data()[..RemoteKey::ENCODED_BYTES])?;
    let mut reply = endpoint.allocate(8)?;
    for call in 0..calls {
        let key: u64 = 1 + call % 10;
        reply = endpoint.call(&key.to_be_bytes(), reply, &table).wait(PATIENCE)?;
        let count = u64::from_be_bytes(reply[..].try_into()?);
        if count <= call / 10 {
            return Err(format!("key {key} was called {count} times, and {} times from here", call / 10 + 1).into());
        }
    }
    println!("made {calls} calls");
    endpoint.send_inline(calls.to_string().as_bytes()).wait(PATIENCE)?;
    Ok(())
}
