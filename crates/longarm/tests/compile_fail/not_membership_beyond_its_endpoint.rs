//! A multicast membership ends before its endpoint does.
use longarm::UdQueuePair;

fn misuse(endpoint: UdQueuePair) {
    let membership = endpoint.join([239, 0, 0, 1].into()).unwrap();
    drop(endpoint);
    println!("{:?}", membership.address_handle());
}

fn main() {}
