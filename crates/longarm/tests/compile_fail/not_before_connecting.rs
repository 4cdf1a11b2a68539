//! A queue pair without a peer can receive, and nothing else.
use longarm::{Buffer, RemoteKey, Unconnected};

fn misuse(qp: Unconnected, buffer: Buffer, key: &RemoteKey) {
    let _ = qp.fetch_add(key, 1).start();
    let _ = qp.send(buffer).start();
}

fn main() {}
