//! An unsignaled request has no completion of its own to wait for.
use longarm::{Buffer, QueuePair, Rc};

async fn misuse(qp: &QueuePair<Rc>, buffer: Buffer) {
    let _ = qp.send(buffer).unsignaled().await;
}

fn main() {}
