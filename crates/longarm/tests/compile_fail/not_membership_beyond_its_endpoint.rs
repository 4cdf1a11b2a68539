//! A multicast membership ends before its endpoint does.
use longarm::UdEndpoint;

fn misuse(endpoint: UdEndpoint) {
    let membership = endpoint.join([239, 0, 0, 1].into()).unwrap();
    drop(endpoint);
    println!("{:?}", membership.address());
}

fn main() {}
