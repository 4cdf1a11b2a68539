//! Unreliable connections have no READ and no atomics.
use longarm::service::Uc;
use longarm::{Buffer, QueuePair, RemoteKey};

fn misuse(qp: &QueuePair<Uc>, buffer: Buffer, key: &RemoteKey) {
    let _ = qp.read(buffer, key).start();
    let _ = qp.compare_swap(key, 0, 1).start();
}

fn main() {}
