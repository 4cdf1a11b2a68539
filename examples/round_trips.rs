//! Round trips: one process sends a message, another sends it back, and the first measures the time.
//!
//! Shows a reliable connection, SEND and RECV, and how buffers move into requests and back.

mod roles;

use std::time::{Duration, Instant};

use longarm::{Buffer, Listener, Route};
use roles::{Args, PATIENCE, Result, Role};

const HELP: &str = "\
Round trips over a reliable connection.

  round_trips                          both sides, in two processes
  round_trips --listen 0.0.0.0:7471    the side that sends messages back
  round_trips --connect HOST:7471      the side that begins and measures

  --rounds N    round trips (2000)
  --bytes N     size of each message (64)";

fn main() -> Result<()> {
    let args = Args::parse(HELP, &["--listen", "--connect", "--rounds", "--bytes"])?;
    let bytes = args.get("--bytes", 64)?;
    match args.role() {
        Role::Listen(address) => answer(&Listener::bind(address).wait(PATIENCE)?, bytes),
        Role::Connect(address) => measure(&address, bytes, args.get("--rounds", 2000)?),
        Role::Both => {
            let listener = Listener::bind(roles::any_port()?).wait(PATIENCE)?;
            let other = args.start_client(listener.local_addr())?;
            answer(&listener, bytes)?;
            other.finish()
        }
    }
}

/// Sends every message back until an empty one arrives.
fn answer(listener: &Listener, bytes: usize) -> Result<()> {
    let incoming = listener.incoming().wait(PATIENCE)?;
    let endpoint = incoming.endpoint()?;
    // The first message may arrive as soon as the connection is up, so post the receive before.
    let mut receive = endpoint.recv(endpoint.allocate(bytes)?).start();
    let mut spare = endpoint.allocate(bytes)?;
    let endpoint = incoming.accept(endpoint, b"").wait(PATIENCE)?;
    loop {
        let message = receive.wait(PATIENCE)?;
        if message.is_empty() {
            return Ok(());
        }
        receive = endpoint.recv(spare).start();
        spare = endpoint.send(message.into_buffer()).wait(PATIENCE)?;
    }
}

/// Sends a message `rounds` times, waits for its return each time, and prints the times.
fn measure(address: &str, bytes: usize, rounds: u32) -> Result<()> {
    let route = Route::to(address).wait(PATIENCE)?;
    let endpoint = route.rc()?;
    let [mut message, mut spare] = [endpoint.allocate(bytes)?, endpoint.allocate(bytes)?];
    let endpoint = longarm::connect(&route, endpoint, b"").wait(PATIENCE)?;

    let mut times = Vec::new();
    for round in 0..rounds {
        mark(&mut message, round);
        let start = Instant::now();
        let receive = endpoint.recv(spare).start();
        let sending = endpoint.send(message).start();
        spare = receive.wait(PATIENCE)?.into_buffer();
        times.push(start.elapsed());
        message = sending.wait(PATIENCE)?;
        if spare[..] != message[..] {
            return Err(format!("the message of round {round} came back changed").into());
        }
    }
    // An empty message ends it: the peer gets it after all others and disconnects.
    let _over = endpoint.send_inline(b"").start();
    endpoint.disconnected().wait(PATIENCE);

    let [half, most] = percentiles(&mut times, [50, 99]);
    println!("{rounds} round trips of {bytes} bytes: 50 % within {half:.1?}, 99 % within {most:.1?}");
    Ok(())
}

/// Writes the number of the round into the message.
fn mark(message: &mut Buffer, round: u32) {
    for (byte, mark) in message.iter_mut().zip(round.to_be_bytes()) {
        *byte = mark;
    }
}

fn percentiles(times: &mut [Duration], percents: [usize; 2]) -> [Duration; 2] {
    times.sort_unstable();
    percents.map(|percent| times.get(times.len() * percent / 100).copied().unwrap_or_default())
}
