//! An unsignaled request has no completion of its own to wait for.
use longarm::{Buffer, QueuePair};

async fn misuse(qp: &QueuePair, buffer: Buffer) {
    let _ = qp.send(buffer).unsignaled().await;
}

fn main() {}
