//! An echo server in async code: many requests are in flight, and none needs a thread.
//!
//! Shows that requests and connections are futures that run on any executor; the one here
//! only blocks.

mod roles;

use longarm::{Endpoint, Listener, QueuePair};
use roles::{Args, Result, Role};

const HELP: &str = "\
Messages go out many at a time, and come back in capitals.

  async_echo                          both sides, in two processes
  async_echo --listen 0.0.0.0:7471    the side that answers
  async_echo --connect HOST:7471      the side that calls

  --calls N    how often to call (1000)
  --ahead N    calls on their way at the same time (16)";

const MESSAGE_BYTES: usize = 64;

fn main() -> Result<()> {
    let args = Args::parse(HELP, &["--listen", "--connect", "--calls", "--ahead"])?;
    let (calls, ahead) = (args.get("--calls", 1000)?, args.get("--ahead", 16)?);
    match args.role() {
        Role::Listen(address) => pollster::block_on(async { answer(&Listener::bind(address).await?, ahead).await }),
        Role::Connect(address) => pollster::block_on(call(&address, calls, ahead)),
        Role::Both => {
            let listener = pollster::block_on(Listener::bind(roles::any_port()?))?;
            let other = args.start_client(listener.local_addr())?;
            pollster::block_on(answer(&listener, ahead))?;
            other.finish()
        }
    }
}

async fn answer(listener: &Listener, ahead: usize) -> Result<()> {
    let incoming = listener.incoming().await?;
    let endpoint = incoming.endpoint()?;
    let buffers = endpoint.protection_domain().allocate_many(ahead, MESSAGE_BYTES)?;
    let ready: Vec<_> = buffers.into_iter().map(|buffer| endpoint.recv(buffer).start()).collect();
    let endpoint = incoming.accept(endpoint, b"").await?;
    let answered = echo(&endpoint, ready).await?;
    println!("answered {answered} calls");
    Ok(())
}

/// Sends every message back in capitals, in the same buffer, until an empty message arrives.
async fn echo(qp: &QueuePair, ready: Vec<longarm::InFlight<longarm::Message>>) -> Result<u32> {
    let mut ready = std::collections::VecDeque::from(ready);
    let mut answered = 0;
    while let Some(next) = ready.pop_front() {
        let message = next.await?;
        if message.is_empty() {
            break;
        }
        let mut buffer = message.into_buffer();
        buffer.make_ascii_uppercase();
        let buffer = qp.send(buffer).await?;
        ready.push_back(qp.recv(buffer).start());
        answered += 1;
    }
    Ok(answered)
}

async fn call(address: &str, calls: usize, ahead: usize) -> Result<()> {
    let endpoint = Endpoint::connect(address, b"").await?;
    for first in (0..calls).step_by(ahead.max(1)) {
        let numbers = first..calls.min(first + ahead);
        // All requests are posted before the first is awaited.
        let mut answers = Vec::new();
        for number in numbers {
            let answer = endpoint.recv(endpoint.allocate(MESSAGE_BYTES)?).start();
            let words = format!("call number {number}");
            let buffer = endpoint.allocate(MESSAGE_BYTES)?.with(words.as_bytes());
            answers.push((words, answer, endpoint.send(buffer).start()));
        }
        for (words, answer, sent) in answers {
            sent.await?;
            let answer = answer.await?;
            if answer[..] != *words.to_ascii_uppercase().as_bytes() {
                return Err(format!("{words:?} came back as {:?}", &answer[..]).into());
            }
        }
    }
    // An empty message ends the calls: the server gets it after all others and disconnects.
    let _over = endpoint.send_inline(b"").start();
    endpoint.disconnected().await;
    println!("{calls} calls, {ahead} at a time, all answered");
    Ok(())
}
