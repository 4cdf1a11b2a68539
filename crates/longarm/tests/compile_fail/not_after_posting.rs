//! A buffer that was posted cannot be read.
use longarm::{Buffer, QueuePair, Rc};

fn misuse(qp: &QueuePair<Rc>, buffer: Buffer) {
    let _ticket = qp.send(buffer).post();
    println!("{:?}", &buffer[..]);
}

fn main() {}
