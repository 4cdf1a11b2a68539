//! A datagram needs a destination, and a memory of the peer cannot be written by one.
use longarm::{Buffer, RemoteKey, UdQueuePair};

fn misuse(endpoint: &UdQueuePair, one: Buffer, two: Buffer, key: &RemoteKey) {
    let _ = endpoint.send(one).start();
    let _ = endpoint.write(two, key).start();
}

fn main() {}
