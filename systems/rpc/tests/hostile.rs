//! Clients that keep no rule, and a server that serves others meanwhile.

mod support;

use longarm::{Endpoint, RKey, RemoteKey};
use longarm_rpc::{Client, Way};
use support::rogue::{LARGE, REPLY, REQUEST, Rogue, header, hello, raw, record, send};
use support::{ADDRESS, ECHO, PATIENCE, ProcessHold, TestProcess, body_of, connected, figures, fill_pools, with_hub};

/// The start of a ring.
const RING: u64 = 64;

/// Each of these ends the session of the one who does it.
fn misdeeds() {
    let ring = || Rogue::begin(Way::Ring, 1 << 17);
    let rogue = ring();
    rogue.write(RING, &[0xff; 64]);
    rogue.must_be_ended("a record longer than the ring");
    let rogue = ring();
    rogue.write(RING, &record(header(0, 77, REQUEST, 0, 1), b""));
    rogue.must_be_ended("a request in a slot that is none");
    let rogue = ring();
    rogue.write(RING, &record(header(0, 0, REPLY, 0, 1), b""));
    rogue.must_be_ended("a reply to nobody");
    let rogue = ring();
    rogue.write(RING, &record(header(0, 0, REQUEST, 0, 9), b""));
    rogue.must_be_ended("a number out of order");
    let rogue = ring();
    send(&rogue.endpoint, &[0xa5; 100]);
    rogue.must_be_ended("a malformed message");
    let rogue = ring();
    send(&rogue.endpoint, &header(0, 0, REQUEST, 0, 1));
    rogue.must_be_ended("a request by SEND");
    let rogue = ring();
    rogue.write_imm(0);
    rogue.must_be_ended("immediate data in another way");
    let rogue = Rogue::begin(Way::Immediate, 1 << 17);
    rogue.write_imm(rogue.session + 1);
    rogue.must_be_ended("immediate data of another client");
    let rogue = ring();
    let nowhere = RemoteKey::from_parts(0x1000, RKey(0xdead_beef), 100_000).to_bytes();
    rogue.write(RING, &record(header(20, 0, REQUEST, LARGE, 1), &nowhere));
    rogue.must_be_ended("a key that leads nowhere");
    Rogue::begin(Way::Ring, 64).must_be_ended("less memory than the way needs");
}

/// Handshakes that lead nowhere.
fn bad_handshakes() {
    for bytes in [&[][..], &[0xff; 64], &[0; 2000], b"GET / HTTP/1.1\r\n\r\n"] {
        let endpoint = raw();
        send(&endpoint, bytes);
        testkit::wait_until("garbage for a Hello", || !endpoint.is_connected());
    }
    let silent: Vec<_> = (0..20).map(|_| raw()).collect();
    let half: Vec<_> = (0..20).map(|_| raw()).collect();
    half.iter().for_each(|endpoint| {
        let _ = endpoint.recv(endpoint.allocate(2048).unwrap()).post();
        send(endpoint, &hello(Way::Ring));
    });
    drop((silent, half));
}

fn must_serve(client: &mut Client) {
    for number in 0..100 {
        assert!(client.call(ECHO, &body_of(number), PATIENCE).unwrap() == body_of(number));
    }
}

#[test]
fn rogues_end_only_their_own_sessions() {
    with_hub("rogues_end_only_their_own_sessions", || {
        let server = TestProcess::server();
        testkit::wait_until("the server listens", || Endpoint::connect(ADDRESS, b"").wait(PATIENCE).is_ok());
        // Its session is the first in the server's list.
        let first = Rogue::begin(Way::Ring, 1 << 17);
        let mut honest = [connected(Way::Ring), connected(Way::Fetch), connected(Way::Immediate)];
        first.write(RING, &[0xff; 64]);
        first.must_be_ended("a record longer than the ring");
        honest.iter_mut().for_each(must_serve);
        fill_pools(Way::Ring);
        let mut hold = Vec::new();
        for round in 0..6 {
            let malformed = figures(&mut honest[0]).malformed;
            misdeeds();
            bad_handshakes();
            honest.iter_mut().for_each(must_serve);
            testkit::wait_until("the rogues' sessions are gone", || figures(&mut honest[0]).sessions == 3);
            assert!(figures(&mut honest[0]).malformed >= malformed + 9, "round {round}: {malformed}");
            hold.push(ProcessHold::of(server.pid()));
        }
        testkit::wait_until("the server forgets half handshakes", || {
            ProcessHold::of(server.pid()).is_back_to(&hold[0], 8)
        });
    });
}
