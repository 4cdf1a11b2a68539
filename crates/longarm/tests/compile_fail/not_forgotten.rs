//! A request that is only described, and never posted, is pointed out.
#![deny(unused_must_use)]
use longarm::{Buffer, QueuePair};

fn misuse(qp: &QueuePair, one: Buffer, two: Buffer) {
    qp.send(one);
    qp.send(two).unsignaled();
    qp.batch();
}

fn main() {}
