//! The crate `redis` over RDMA. The server is a redis-server behind the example `forward`:
//!
//! ```sh
//! cargo run -p longarm-stream --example forward -- rdma:0.0.0.0:7471 tcp:127.0.0.1:6379
//! cargo run -p longarm-stream --example redis_client -- HOST:7471
//! ```

use std::error::Error;

use clap::Parser;
use longarm_stream::RdmaStream;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, RedisConnectionInfo};

#[derive(Parser)]
struct Options {
    /// The address of the server
    server: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let stream = RdmaStream::connect(Options::parse().server).await?;
    let (mut redis, driver) = MultiplexedConnection::new(&RedisConnectionInfo::default(), stream).await?;
    tokio::spawn(driver);

    let _: () = redis.set("answer", 42).await?;
    let answer: u32 = redis.incr("answer", 1).await?;
    let long = vec![7u8; 1 << 20];
    let _: () = redis.set("long", &long).await?;
    let back: Vec<u8> = redis.get("long").await?;
    println!("the answer is {answer}, and {} of {} bytes came back", back.len(), long.len());

    let mut pipe = redis::pipe();
    (0..1000).for_each(|at| _ = pipe.set(at, at));
    let done: Vec<String> = pipe.query_async(&mut redis).await?;
    println!("{} commands in one go", done.len());
    Ok(())
}
