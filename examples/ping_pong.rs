//! Ping-pong: two processes send a message back and forth and measure the round trip.
//!
//! Shows a reliable connection, SEND and RECV, and how buffers move into requests and back.

mod roles;

use std::time::{Duration, Instant};

use longarm::{Buffer, Listener, Rc, Route};
use roles::{Args, PATIENCE, Result, Role};

const HELP: &str = "\
Ping-pong over a reliable connection.

  ping_pong                          both players, in two processes
  ping_pong --listen 0.0.0.0:7471    one player, who waits for the other
  ping_pong --connect HOST:7471      the other, who serves and measures

  --rounds N    how often to throw (2000)
  --bytes N     how large the ball is (64)";

fn main() -> Result<()> {
    let args = Args::parse(HELP, &["--listen", "--connect", "--rounds", "--bytes"])?;
    let bytes = args.get("--bytes", 64)?;
    match args.role() {
        Role::Listen(address) => pong(&Listener::bind(address)?, bytes),
        Role::Connect(address) => ping(&address, bytes, args.get("--rounds", 2000)?),
        Role::Both => {
            let listener = Listener::bind("127.0.0.1:0")?;
            let other = args.start_client(listener.local_addr())?;
            pong(&listener, bytes)?;
            other.finish()
        }
    }
}

/// Sends every ball back until an empty one arrives.
fn pong(listener: &Listener<Rc>, bytes: usize) -> Result<()> {
    let request = listener.accept().wait(PATIENCE)?;
    let endpoint = request.endpoint()?;
    // The first ball may arrive as soon as the connection is up, so post the receive before.
    let mut receive = endpoint.recv(endpoint.allocate(bytes)?).start();
    let mut spare = endpoint.allocate(bytes)?;
    let endpoint = request.accept(endpoint, b"").wait(PATIENCE)?;
    loop {
        let ball = receive.wait(PATIENCE)?;
        if ball.is_empty() {
            return Ok(());
        }
        receive = endpoint.recv(spare).start();
        spare = endpoint.send(ball.into_buffer()).wait(PATIENCE)?;
    }
}

/// Sends a ball `rounds` times, waits for it each time, and prints the times.
fn ping(address: &str, bytes: usize, rounds: u32) -> Result<()> {
    let route = Route::to(address)?;
    let endpoint = route.rc()?;
    let [mut ball, mut spare] = [endpoint.allocate(bytes)?, endpoint.allocate(bytes)?];
    let endpoint = longarm::connect(&route, endpoint, b"").wait(PATIENCE)?;

    let mut times = Vec::new();
    for round in 0..rounds {
        mark(&mut ball, round);
        let start = Instant::now();
        let receive = endpoint.recv(spare).start();
        let throw = endpoint.send(ball).start();
        spare = receive.wait(PATIENCE)?.into_buffer();
        times.push(start.elapsed());
        ball = throw.wait(PATIENCE)?;
        if spare[..] != ball[..] {
            return Err(format!("the ball of round {round} came back changed").into());
        }
    }
    // An empty message ends the game: the peer gets it after all others and disconnects.
    let _over = endpoint.send_inline(b"").start();
    endpoint.disconnected().wait(PATIENCE);

    let [half, most] = percentiles(&mut times, [50, 99]);
    println!("{rounds} round trips of {bytes} bytes: 50 % within {half:.1?}, 99 % within {most:.1?}");
    Ok(())
}

/// Writes the number of the round on the ball.
fn mark(ball: &mut Buffer, round: u32) {
    for (byte, mark) in ball.iter_mut().zip(round.to_be_bytes()) {
        *byte = mark;
    }
}

fn percentiles(times: &mut [Duration], percents: [usize; 2]) -> [Duration; 2] {
    times.sort_unstable();
    percents.map(|percent| times.get(times.len() * percent / 100).copied().unwrap_or_default())
}
