//! Connecting uses the unconnected queue pair up.
use longarm::{ConnectionInfo, Unconnected};

fn misuse(qp: Unconnected, one: &ConnectionInfo, two: &ConnectionInfo) {
    let _first = qp.connect(one);
    let _second = qp.connect(two);
}

fn main() {}
