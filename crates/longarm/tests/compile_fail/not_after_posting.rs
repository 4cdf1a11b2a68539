//! A buffer that was posted cannot be read.
use longarm::{Buffer, QueuePair};

fn misuse(qp: &QueuePair, buffer: Buffer) {
    let _ticket = qp.send(buffer).post();
    println!("{:?}", &buffer[..]);
}

fn main() {}
