//! Clients with many calls at a time.

use std::collections::HashMap;
use std::time::Instant;

use longarm_rpc::{Client, ClientOptions, NotStarted, Way};

use super::{ADDRESS, ECHO, LATER, NOTE, Outcomes, PATIENCE};

pub(crate) fn options(way: Way) -> ClientOptions {
    ClientOptions { way: Some(way), ..ClientOptions::default() }
}

/// A client of the server process, as soon as that listens.
pub(crate) fn connected(way: Way) -> Client {
    testkit::wait_for("the server listens", || Client::connect(ADDRESS, &options(way)).ok())
}

/// The body of a request: its number, and bytes that follow from it. One in 16 is too long for any slot or ring.
pub(crate) fn body_of(number: u64) -> Vec<u8> {
    let len = if number % 16 == 7 { 40_000 } else { 8 + number as usize % 200 };
    let mut body = number.to_le_bytes().to_vec();
    body.resize(len, number as u8);
    body
}

/// Calls with all slots until the session ends, numbered from `first`. Returns how each ended.
pub(crate) fn load(client: &mut Client, first: u64) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let (mut number, mut pending) = (first, HashMap::new());
    let mut ended_at = None;
    loop {
        while ended_at.is_none() {
            let method = if number % 3 == 0 { LATER } else { NOTE };
            match client.start(method, &body_of(number), None) {
                Ok(id) => assert!(pending.insert(id, number).is_none(), "two calls with one number"),
                Err(NotStarted::Full) => break,
                Err(NotStarted::Refused(status)) => {
                    outcomes.end(number, Err(status));
                    ended_at = Some(Instant::now());
                }
            }
            number += 1;
        }
        client.poll(|id, reply| {
            let number = pending.remove(&id).expect("a call that was made, once");
            let result = reply.map(|bytes| assert!(bytes == body_of(number), "another reply"));
            outcomes.end(number, result);
        });
        match ended_at {
            Some(_) if pending.is_empty() => return outcomes,
            Some(at) => assert!(at.elapsed() < PATIENCE, "{} calls have no end", pending.len()),
            None => {}
        }
    }
}

/// Calls as fast as it can, until it is killed.
pub(super) fn load_for_ever(way: Way) {
    let mut client = connected(way);
    for number in 0_u64.. {
        while let Err(failed) = client.start(ECHO, &body_of(number), None) {
            if let NotStarted::Refused(status) = failed {
                panic!("{status}");
            }
            client.poll(|_, reply| assert!(reply.is_ok(), "{reply:?}"));
        }
    }
}

/// Calls with long messages and with short ones in all slots, so that the server's pools have what any load needs.
pub(crate) fn fill_pools(way: Way) {
    let mut clients = [connected(way), connected(way)];
    for body in [vec![1; 40_000], vec![1; 100]] {
        let mut ended = 0;
        while ended < 1000 {
            for client in &mut clients {
                while client.start(ECHO, &body, None).is_ok() {}
                ended += client.poll(|_, reply| assert!(reply.is_ok(), "{reply:?}"));
            }
        }
    }
}
