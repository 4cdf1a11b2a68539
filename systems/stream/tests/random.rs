//! Random reads, writes and cancellations from a seed: every byte arrives once, in order.
//!
//! `LONGARM_SEED=N cargo test -p longarm-stream --test random` repeats one.

mod support;

use std::time::Duration;

use faults::Rng;
use longarm_stream::{RdmaReadHalf, RdmaWriteHalf, StreamConfig};
use support::{pair, pattern, with_hub};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const BYTES: usize = 1 << 20;

/// A time after which an operation is given up: often none at all.
fn patience(rng: &mut Rng) -> Duration {
    match rng.next_u64() % 4 {
        0 => Duration::ZERO,
        1 => Duration::from_micros(rng.next_u64() % 200),
        _ => Duration::from_secs(60),
    }
}

fn below(rng: &mut Rng, most: usize) -> usize {
    1 + (rng.next_u64() % most as u64) as usize
}

async fn write(mut to: RdmaWriteHalf, mut rng: Rng) {
    let bytes = pattern(0, BYTES);
    let mut sent = 0;
    while sent < BYTES {
        let most = if rng.next_u64().is_multiple_of(3) { 100 } else { 200_000 };
        let len = below(&mut rng, most).min(BYTES - sent);
        if let Ok(written) = timeout(patience(&mut rng), to.write(&bytes[sent..sent + len])).await {
            sent += written.unwrap();
        }
    }
    to.shutdown().await.unwrap();
}

async fn read(mut from: RdmaReadHalf, mut rng: Rng) -> Vec<u8> {
    let mut heard = Vec::new();
    loop {
        let mut some = vec![0; below(&mut rng, 100_000)];
        if let Ok(read) = timeout(patience(&mut rng), from.read(&mut some)).await {
            match read.unwrap() {
                0 => return heard,
                len => heard.extend(&some[..len]),
            }
        }
    }
}

#[test]
fn random_operations_lose_and_repeat_nothing() {
    with_hub("random_operations_lose_and_repeat_nothing", || async {
        let given = std::env::var("LONGARM_SEED").ok().and_then(|seed| seed.parse().ok());
        let seeds = given.map_or(1..7u64, |seed| seed..seed + 1);
        for seed in seeds {
            let mut rng = Rng::new(seed);
            let sizes = [4 << 10, 20_000, 256 << 10];
            let size = |rng: &mut Rng| sizes[(rng.next_u64() % 3) as usize];
            let config = StreamConfig::new().send_buffer(size(&mut rng)).recv_buffer(size(&mut rng));
            let (client, server) = pair(&config).await;
            let ((client_read, client_write), (server_read, server_write)) = (client.into_split(), server.into_split());
            let of = |index| Rng::for_index(seed, index);
            let (there, back, (), ()) = tokio::join!(
                read(server_read, of(1)),
                read(client_read, of(2)),
                write(client_write, of(3)),
                write(server_write, of(4)),
            );
            assert!(there == pattern(0, BYTES) && back == there, "bytes differ: LONGARM_SEED={seed}");
        }
    });
}
