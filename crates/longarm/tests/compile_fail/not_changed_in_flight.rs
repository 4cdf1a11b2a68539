//! A buffer cannot be changed while a request that was started has it.
use longarm::{Buffer, QueuePair, RemoteKey};

fn misuse(qp: &QueuePair, mut buffer: Buffer, to: &RemoteKey) {
    let _write = qp.write(buffer, to).start();
    buffer[0] = 1;
}

fn main() {}
