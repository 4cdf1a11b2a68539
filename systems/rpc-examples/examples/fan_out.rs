//! One question to many servers at a time, as searches and caches ask their shards. The answers are added up. A shard
//! that does not answer in time is left out, and the program says so.
//!
//! ```sh
//! cargo run --release -p longarm-rpc-examples --example fan_out                     # 16 servers in this process
//! cargo run --release -p longarm-rpc-examples --example fan_out -- HOST:7474 HOST:7475 …
//! ```

use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use longarm_rpc::{BoxError, Channel, ClientOptions, Method, Methods, Request, Server, ServerOptions, Status};

const COUNT: Method = Method::new("/shard.Shard/Count");
/// Numbers that each shard of the example holds.
const NUMBERS: u64 = 10_000;

#[derive(Parser)]
struct Options {
    /// The addresses of the shards; without any, 16 run in this process
    shards: Vec<String>,
    /// Counts the numbers that this one divides
    #[arg(long, default_value_t = 7)]
    divisor: u64,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let Options { mut shards, divisor } = Options::parse();
    let own = if shards.is_empty() { (0..16).map(serve).collect::<Result<Vec<_>, _>>()? } else { Vec::new() };
    shards.extend(own.iter().map(|server| server.local_addr().to_string()));

    let mut channels = Vec::new();
    for shard in &shards {
        channels.push(Channel::connect(shard.as_str(), ClientOptions::default()).await?);
    }
    let start = Instant::now();
    let questions: Vec<_> = channels.iter().map(|channel| tokio::spawn(ask(channel.clone(), divisor))).collect();
    let (mut sum, mut answered) = (0, 0);
    for (question, shard) in questions.into_iter().zip(&shards) {
        match question.await? {
            Ok(count) => (sum, answered) = (sum + count, answered + 1),
            Err(status) => println!("{shard} is left out: {status}"),
        }
    }
    println!("{sum} numbers, from {answered} of {} shards, in {:?}", shards.len(), start.elapsed());
    Ok(())
}

async fn ask(channel: Channel, divisor: u64) -> Result<u64, Status> {
    let mut request = Request::new(Bytes::copy_from_slice(&divisor.to_le_bytes()));
    request.set_timeout(Duration::from_secs(1));
    let reply = channel.call(COUNT, request).await?.into_inner();
    Ok(u64::from_le_bytes(reply[..].try_into().map_err(|_| Status::data_loss("a reply of another length"))?))
}

/// The shard with that number: it holds the numbers from `NUMBERS * number` on.
fn serve(number: u64) -> Result<Server, Status> {
    let first = NUMBERS * number;
    let shard = Methods::new("shard.Shard").direct(COUNT, move |request, reply| {
        let divisor = request.try_into().map(u64::from_le_bytes).ok().filter(|divisor| *divisor > 0);
        let divisor = divisor.ok_or_else(|| Status::invalid_argument("no divisor of 8 bytes"))?;
        let count = (first..first + NUMBERS).filter(|number| number.is_multiple_of(divisor)).count() as u64;
        reply.extend_from_slice(&count.to_le_bytes());
        Ok(())
    });
    let options = ServerOptions { pool_threads: 1, ..ServerOptions::default() };
    Server::builder().add_service(shard)?.options(options).bind("127.0.0.1:0")
}
