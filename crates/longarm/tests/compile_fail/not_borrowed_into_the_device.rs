//! A reference is not enough to post: the device would have the bytes after it ended.
use longarm::{Buffer, QueuePair};

fn misuse(qp: &QueuePair, buffer: &Buffer, bytes: &[u8]) {
    let _ = qp.send(buffer).start();
    let _ = qp.send(bytes).start();
}

fn main() {}
