//! A buffer cannot be freed while a future has it.
use longarm::{Buffer, QueuePair};

async fn misuse(qp: &QueuePair, buffer: Buffer) {
    let message = qp.recv(buffer);
    drop(buffer);
    let _ = message.await;
}

fn main() {}
