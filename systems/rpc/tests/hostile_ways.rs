//! Clients of *herd*, *fetch* and *datagram* that keep no rule, and a server that serves others meanwhile.

mod support;

use longarm::{Endpoint, RKey, RemoteKey};
use longarm_rpc::{Client, Way};
use support::rogue::{LARGE, REPLY, REQUEST, Rogue, header, record, request};
use support::{
    ADDRESS, ECHO, Figures, Journal, NOTE, PATIENCE, ProcessHold, TestProcess, body_of, connected, figures, fill_pools,
    with_hub,
};

/// Bytes of a slot, as `hello` asks for.
const SLOT: u64 = 512;
/// Memory for the server's WRITEs: enough for any way.
const AREA: usize = 1 << 17;

/// A record with a check, as `src/carrier/checked.rs` has it.
fn checked(header: [u8; 24], body: &[u8]) -> Vec<u8> {
    let mut bytes = [&header[..], body].concat();
    let check = crc32fast::hash(&bytes);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes.extend_from_slice(&header[8..12]);
    bytes
}

/// A key to memory that is not there.
fn nowhere() -> [u8; RemoteKey::ENCODED_BYTES] {
    RemoteKey::from_parts(0x1000, RKey(0xdead_beef), 100_000).to_bytes()
}

/// The records that end the session of the one who writes them to slot 0, as `record` makes them.
fn bad_records(record: impl Fn([u8; 24], &[u8]) -> Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a record longer than its slot", record(header(4000, 0, REQUEST, 0, 1), b"")),
        ("a length beyond all memory", record(header(u32::MAX, 0, REQUEST, 0, 1), b"")),
        ("a request for another slot", record(header(0, 1, REQUEST, 0, 1), b"")),
        ("a request for no slot", record(header(0, 0xffff, REQUEST, 0, 1), b"")),
        ("a reply to nobody", record(header(0, 0, REPLY, 0, 1), b"")),
        ("a message of no kind", record(header(0, 0, 77, 0, 1), b"")),
        ("a key of another length", record(header(3, 0, REQUEST, LARGE, 1), b"abc")),
        ("a key that leads nowhere", record(header(20, 0, REQUEST, LARGE, 1), &nowhere())),
    ]
}

/// Misdeeds that all of these ways have. Returns how many they are.
fn common_misdeeds(way: Way) -> u64 {
    let rogue = Rogue::begin(way, AREA);
    rogue.write_imm(0);
    rogue.must_be_ended("immediate data in a way without it");
    Rogue::begin(way, 8).must_be_ended("less memory than the way needs");
    Rogue::begin_with(way, AREA, |ours| ours.forget_datagrams()).must_be_ended("no address for datagrams");
    3
}

fn herd_misdeeds() -> u64 {
    let bad = bad_records(checked);
    for (deed, record) in &bad {
        let rogue = Rogue::begin(Way::Herd, AREA);
        rogue.write(0, record);
        rogue.must_be_ended(deed);
    }
    Rogue::begin_with(Way::Herd, AREA, |ours| ours.forget_connection()).must_be_ended("no unreliable connection");
    // A record that the network, or a rogue, has mixed up is none, and the next one is served.
    let rogue = Rogue::begin(Way::Herd, AREA);
    let reply = rogue.expect_datagram();
    let good = checked(request(8, 0, 1, NOTE), &77_u64.to_le_bytes());
    let mut mixed = good.clone();
    mixed[24] ^= 1;
    rogue.write(0, &mixed);
    rogue.write(SLOT, &checked(request(8, 1, 9, NOTE), &78_u64.to_le_bytes()));
    rogue.write(0, &good);
    assert_eq!(rogue.received(reply)[32..], 77_u64.to_le_bytes());
    // Once executed, it is never executed again: the reply comes again.
    for _ in 0..50 {
        let again = rogue.expect_datagram();
        rogue.write(0, &good);
        assert_eq!(rogue.received(again)[32..], 77_u64.to_le_bytes());
    }
    rogue.must_live("a replay");
    bad.len() as u64 + 1
}

fn fetch_misdeeds() -> u64 {
    let bad = bad_records(record);
    for (deed, record) in &bad {
        let rogue = Rogue::begin(Way::Fetch, AREA);
        rogue.write(8, record);
        rogue.must_be_ended(deed);
    }
    let rogue = Rogue::begin(Way::Fetch, AREA);
    rogue.write(8, &record(header(0, 0, REQUEST, 0, 9), b""));
    rogue.must_be_ended("a number out of order");
    let rogue = Rogue::begin(Way::Fetch, AREA);
    let read = rogue.read.expect("the memory with the replies").at(0, 8).unwrap();
    assert!(rogue.endpoint.write_inline(&[1; 8], &read).wait(PATIENCE).is_err(), "the replies are to be read only");
    let ran = Journal::count();
    // Asking for replies that nobody has asked for, and for those of other numbers, ends nothing.
    let rogue = Rogue::begin(Way::Fetch, AREA);
    for (slot, number) in [(0, 5), (31, u64::MAX), (1, 0)] {
        rogue.write(slot * SLOT, &(number | 1 << 32).to_le_bytes());
    }
    rogue.write(8, &record(request(8, 0, 1, NOTE), &79_u64.to_le_bytes()));
    testkit::wait_until("the request runs", || Journal::count() > ran);
    rogue.must_live("a question of no use");
    bad.len() as u64 + 1
}

/// The header of a packet and what follows, as `src/carrier/datagram/packet.rs` has it.
fn packet(to: (u32, u32), number: u32, slot: u8, kind: u8, index: u16, rest: &[u8]) -> Vec<u8> {
    let mut bytes = [to.0.to_le_bytes(), to.1.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.extend_from_slice(&[slot, kind]);
    bytes.extend_from_slice(&index.to_le_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

/// Datagrams that fit no request. Returns how many they are.
fn stray_datagrams(rogue: &Rogue, honest_session: u32) -> u64 {
    let (own, other) = ((rogue.session, rogue.token), (honest_session, rogue.token));
    let hello = [&request(5, 0, 1, ECHO)[..], b"hello"].concat();
    let long = [&request(u32::MAX, 0, 1, ECHO)[..], b"hello"].concat();
    let mut strays: Vec<Vec<u8>> = [1, 3, 4, 15, 16, 100, 1000].map(|len| vec![0xff; len]).to_vec();
    strays.extend([0, 4, 16, 1000].map(|len| [&own.0.to_le_bytes()[..], &vec![0xa5; len]].concat()));
    strays.extend((0..=255).filter(|kind| *kind != 1).map(|kind| packet(own, 1, 0, kind, 0, b"")));
    strays.extend([
        packet(other, 1, 0, 1, 0, &hello),
        packet((u32::MAX, rogue.token), 1, 0, 1, 0, &hello),
        packet((rogue.session, !rogue.token), 1, 0, 1, 0, &hello),
        packet(own, 1, 32, 1, 0, &hello),
        packet(own, 1, 255, 1, 0, &hello),
        packet(own, 9, 0, 1, 0, &hello),
        packet(own, 1, 0, 1, 7, &hello),
        packet(own, 1, 0, 1, 0, &long),
        packet(own, 1, 1, 1, 0, &hello),
        packet(own, 1, 0, 1, 0, &hello[..20]),
        packet(own, 1, 0, 1, 0, &[hello.clone(), vec![0; 100]].concat()),
        packet(own, 1, 0, 1, 0, &header(0, 0, REPLY, 0, 1)),
    ]);
    strays.iter().for_each(|stray| rogue.datagram(stray));
    strays.len() as u64
}

/// Returns how many datagrams the server must count as dropped by now: the one to the honest session counts when that ends.
fn datagram_misdeeds(honest_session: u32) -> u64 {
    let rogue = Rogue::begin(Way::Datagram, AREA);
    let strays = stray_datagrams(&rogue, honest_session);
    rogue.must_live("a stray datagram");
    let own = (rogue.session, rogue.token);
    let good = packet(own, 1, 0, 1, 0, &[&request(8, 0, 1, NOTE)[..], &80_u64.to_le_bytes()].concat());
    for _ in 0..200 {
        let reply = rogue.expect_datagram();
        rogue.datagram(&good);
        let reply = rogue.received(reply);
        assert_eq!((reply[13], &reply[40..]), (4, &80_u64.to_le_bytes()[..]), "the same reply each time");
    }
    rogue.must_live("a replay");
    // A key that leads nowhere ends the session, for the READ fails.
    let large = [&header(20, 1, REQUEST, LARGE, 1)[..], &nowhere()].concat();
    rogue.datagram(&packet(own, 1, 1, 1, 0, &large));
    rogue.must_be_ended("a key that leads nowhere");
    strays - 1
}

fn must_serve(client: &mut Client) {
    for number in 0..100 {
        assert!(client.call(ECHO, &body_of(number), PATIENCE).unwrap() == body_of(number));
    }
}

/// One round of all misdeeds, beside honest clients.
fn round(honest: &mut [Client; 3]) {
    let (ran, before) = (Journal::count(), figures(&mut honest[0]));
    let ended = common_misdeeds(Way::Herd) + common_misdeeds(Way::Datagram) + herd_misdeeds() + fetch_misdeeds();
    // The honest sessions are the first three.
    let strays = datagram_misdeeds(2);
    assert_eq!(Journal::count(), ran + 3, "the good requests run once each");
    honest.iter_mut().for_each(must_serve);
    // Two of the ends come from above: they spoil no message.
    let counted = |now: &Figures| {
        now.sessions == 3
            && now.malformed >= before.malformed + ended - 2
            && now.dropped >= before.dropped + strays
            && now.repeated >= before.repeated + 50 + 199
    };
    testkit::wait_until("the server has counted everything", || counted(&figures(&mut honest[0])));
}

#[test]
fn rogues_of_other_ways_end_only_their_own_sessions() {
    with_hub("rogues_of_other_ways_end_only_their_own_sessions", || {
        let server = TestProcess::server();
        testkit::wait_until("the server listens", || Endpoint::connect(ADDRESS, b"").wait(PATIENCE).is_ok());
        let mut honest = [connected(Way::Herd), connected(Way::Fetch), connected(Way::Datagram)];
        fill_pools(Way::Datagram);
        honest.iter_mut().for_each(must_serve);
        let mut hold = Vec::new();
        for _ in 0..4 {
            round(&mut honest);
            hold.push(ProcessHold::of(server.pid()));
        }
        testkit::wait_until("the server holds no more than after the first round", || {
            ProcessHold::of(server.pid()).is_back_to(&hold[0], 8)
        });
    });
}
