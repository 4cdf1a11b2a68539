//! A buffer cannot be changed while a request that was started has it.
use longarm::{Buffer, QueuePair, Rc, RemoteKey};

fn misuse(qp: &QueuePair<Rc>, mut buffer: Buffer, to: &RemoteKey) {
    let _write = qp.write(buffer, to).start();
    buffer[0] = 1;
}

fn main() {}
