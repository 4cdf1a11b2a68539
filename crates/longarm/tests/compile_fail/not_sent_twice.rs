//! A received buffer can be sent on once.
use longarm::{Message, QueuePair};

fn misuse(qp: &QueuePair, message: Message) {
    let buffer = message.into_buffer();
    let _first = qp.send(buffer).start();
    let _second = qp.send(buffer).start();
}

fn main() {}
