//! The cost of the UDP fabric alone, without a queue pair on top: lower bounds for the device's figures.
//!
//! Needs UDP port 4791. Runs two polling threads on two processors. Prints the median of several rounds, with
//! the range: `cargo bench -p longarm-udp`.

use longarm_udp::{Family, PortGroup, RxBatch, RxSocket, SLOTS, TxGroup, TxPool};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wire::{Flow, ROCE_PORT};

const ROUNDS: usize = 15;
const PINGS: u32 = 2_000;
const BURST: u32 = 20;
const BURSTS: usize = 1000;
const STREAM: Duration = Duration::from_millis(100);
/// The size of an RC WRITE packet of 4 KiB: BTH, payload, ICRC.
const SEGMENT_BYTES: u16 = 12 + 4096 + 4;
const SEGMENTS: usize = 15;
const WINDOW_GROUPS: u64 = 16;
const CLOSED_SLOT: u8 = 2;
/// The offset of the slot in a packet.
const SLOT_AT: usize = 5;

fn main() {
    // `cargo test --all-targets` starts benches without this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return println!("a benchmark: use `cargo bench`");
    }
    let group = match PortGroup::bind(SLOTS) {
        Ok(group) => group,
        Err(error) => return eprintln!("cannot run: {error}"),
    };
    let slots = [0, 1].map(|slot| {
        group.open_slot(slot).expect("a slot");
        RxSocket::new(group.slot(slot).expect("bound").try_clone_to_owned().expect("a copy")).expect("a UDP socket")
    });
    for address in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
        println!("-- {address}");
        sends_by_one_processor(address);
        receives_by_one_processor(&slots[0], address);
        let plain = || plain_ping_pong(address);
        let fabric = || fabric_ping_pong(&slots, address);
        let stream = || stream(&slots, address);
        compare(
            ROUNDS,
            vec![
                Case::new("plain UDP, 64 B one way", "us", plain),
                Case::new("fabric, 64 B one way", "us", fabric),
                Case::new("fabric, 15 packets of 4 KiB a send", "GB/s", stream),
            ],
        );
    }
}

/// A measurement, with its result of each round.
struct Case<'a> {
    what: &'static str,
    unit: &'static str,
    round: Box<dyn FnMut() -> f64 + 'a>,
}

impl<'a> Case<'a> {
    fn new(what: &'static str, unit: &'static str, round: impl FnMut() -> f64 + 'a) -> Case<'a> {
        Case { what, unit, round: Box::new(round) }
    }

    /// The time for each packet in bursts of `step`, which handles `packets` packets.
    fn burst(what: &'static str, packets: u32, mut step: impl FnMut() + 'a) -> Case<'a> {
        Case::new(what, "ns", move || {
            let start = Instant::now();
            (0..BURST).for_each(|_| step());
            each_ns(start.elapsed(), BURST * packets)
        })
    }
}

/// Runs the cases in turn, so that other load and changes of the processor's speed affect all of them
/// equally. Prints the median, the least and the greatest value of each.
fn compare(rounds: usize, mut cases: Vec<Case<'_>>) {
    let mut values = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        cases.iter_mut().zip(&mut values).for_each(|(case, values)| values.push((case.round)()));
    }
    for (case, mut values) in cases.iter().zip(values) {
        values.sort_by(f64::total_cmp);
        let [median, least, greatest] = [rounds / 2, 0, rounds - 1].map(|i| values[i]);
        println!("{:<46}{median:>10.2} {:<4} (from {least:.2} to {greatest:.2})", case.what, case.unit);
    }
}

fn each_ns(elapsed: Duration, count: u32) -> f64 {
    elapsed.as_nanos() as f64 / f64::from(count)
}

fn pin(processor: usize) {
    // SAFETY: an all-zero set is empty, `processor` is below its size, and the kernel reads no more than its
    // size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Runs both ends of a ping-pong on two processors. Returns the one-way time, half of a round trip, in us.
fn ping_pong(mut ping: impl FnMut() + Send, mut pong: impl FnMut(&AtomicBool) + Send) -> f64 {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            pong(&stop);
        });
        pin(0);
        (0..PINGS / 10).for_each(|_| ping());
        let start = Instant::now();
        (0..PINGS).for_each(|_| ping());
        let elapsed = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        each_ns(elapsed, 2 * PINGS) / 1000.0
    })
}

/// The lower bound: connected sockets, `send` and `recv`, and no control messages.
fn plain_ping_pong(address: IpAddr) -> f64 {
    let sockets = [(); 2].map(|()| UdpSocket::bind((address, 0)).expect("a socket"));
    for (socket, peer) in sockets.iter().zip(sockets.iter().rev()) {
        socket.connect(peer.local_addr().expect("bound")).expect("connects");
        socket.set_nonblocking(true).expect("is set");
    }
    let mut room = [0; 2048];
    ping_pong(
        || {
            sockets[0].send(&[0; 64]).expect("sends");
            while sockets[0].recv(&mut room).is_err() {}
        },
        |stop| {
            let mut room = [0; 2048];
            while !stop.load(Ordering::Relaxed) {
                if sockets[1].recv(&mut room).is_ok() {
                    sockets[1].send(&[0; 64]).expect("sends");
                }
            }
        },
    )
}

fn packets(slot: u8, packet_bytes: usize, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; packet_bytes * count];
    bytes.chunks_mut(packet_bytes).for_each(|packet| packet[SLOT_AT] = slot);
    bytes
}

fn group<'a>(pool: &TxPool, address: IpAddr, segment_bytes: u16, bytes: &'a [u8]) -> TxGroup<'a> {
    let source_port = pool.source_port(0xc000, Family::of(&address)).expect("a port");
    let flow = Flow { source: address, destination: address, source_port };
    TxGroup { flow, traffic_class: 0, hop_limit: 0, interface: 0, segment_bytes, bytes }
}

fn send(pool: &TxPool, groups: &[TxGroup<'_>]) {
    pool.send(groups, |_, error| panic!("{error}"));
}

/// Receives the packets that an earlier case has left behind.
fn drain(slots: &[RxSocket; 2]) {
    let mut batch = RxBatch::new(1);
    slots.iter().for_each(|slot| while slot.recv(&mut batch).expect("receives") > 0 {});
}

fn fabric_ping_pong(slots: &[RxSocket; 2], address: IpAddr) -> f64 {
    drain(slots);
    // Each end has its own sockets, like two processes.
    let pools = [TxPool::new(100), TxPool::new(100)];
    let bytes = [0, 1].map(|slot| packets(slot, 64, 1));
    let (to_ping, to_pong) = (group(&pools[1], address, 64, &bytes[0]), group(&pools[0], address, 64, &bytes[1]));
    let mut batch = RxBatch::new(32);
    ping_pong(
        || {
            send(&pools[0], &[to_pong]);
            while slots[0].recv(&mut batch).expect("receives") == 0 {}
        },
        |stop| {
            let mut batch = RxBatch::new(32);
            while !stop.load(Ordering::Relaxed) {
                if slots[1].recv(&mut batch).expect("receives") > 0 {
                    assert!(batch.iter().all(|datagram| datagram.destination == address));
                    send(&pools[1], &[to_ping]);
                }
            }
        },
    )
}

/// Bandwidth of 4 KiB packets in GB/s, with at most a window of them not yet received.
fn stream(slots: &[RxSocket; 2], address: IpAddr) -> f64 {
    drain(slots);
    let pool = TxPool::new(100);
    let bytes = packets(1, SEGMENT_BYTES.into(), SEGMENTS);
    let group = group(&pool, address, SEGMENT_BYTES, &bytes);
    let received = AtomicU64::new(0);
    let (stop, begin) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            let mut batch = RxBatch::new(8);
            begin.wait();
            while !stop.load(Ordering::Relaxed) {
                slots[1].recv(&mut batch).expect("receives");
                let count: usize = batch.iter().map(|d| d.bytes.len()).sum();
                received.fetch_add(count as u64, Ordering::Release);
            }
        });
        pin(0);
        begin.wait();
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed() < STREAM {
            if sent - received.load(Ordering::Acquire) < WINDOW_GROUPS * bytes.len() as u64 {
                send(&pool, &[group]);
                sent += bytes.len() as u64;
            }
        }
        stop.store(true, Ordering::Relaxed);
        received.load(Ordering::Acquire) as f64 / start.elapsed().as_nanos() as f64
    })
}

/// The time that one processor needs to send packets of 64 bytes to a closed slot.
fn sends_by_one_processor(address: IpAddr) {
    let pool = TxPool::new(100);
    let bytes = packets(CLOSED_SLOT, 64, 64);
    let single = group(&pool, address, 64, &bytes[..64]);
    let many = TxGroup { bytes: &bytes, ..single };
    let plain = UdpSocket::bind((address, 0)).expect("a socket");
    let to = SocketAddr::new(address, ROCE_PORT);
    compare(
        BURSTS,
        vec![
            Case::burst("plain sendto of 64 B", 1, || drop(plain.send_to(&bytes[..64], to))),
            Case::burst("fabric, one packet of 64 B a send", 1, || send(&pool, &[single])),
            Case::burst("fabric, 2 groups of one packet a send", 2, || send(&pool, &[single; 2])),
            Case::burst("fabric, 32 groups of one packet a send", 32, || send(&pool, &[single; 32])),
            Case::burst("fabric, one group of 64 packets a send", 64, || send(&pool, &[many])),
        ],
    );
}

/// The time that one processor needs to receive packets of 64 bytes, after a burst of them was sent.
fn receives_by_one_processor(slot: &RxSocket, address: IpAddr) {
    let pool = TxPool::new(100);
    let bytes = packets(0, 64, 1);
    let group = group(&pool, address, 64, &bytes);
    let plain = UdpSocket::bind((address, 0)).expect("a socket");
    let own = plain.local_addr().expect("bound");
    let timed = |prepare: &dyn Fn(), mut receive: Box<dyn FnMut() + '_>| {
        (0..BURST).for_each(|_| prepare());
        let start = Instant::now();
        receive();
        each_ns(start.elapsed(), BURST)
    };
    let from_slot = |tell: bool, most: usize| {
        slot.tell_header_fields(tell).expect("is set");
        let (mut batch, mut count) = (RxBatch::new(most), 0);
        let receive = move || {
            while count < BURST as usize {
                count += slot.recv(&mut batch).expect("receives");
                assert!(batch.iter().all(|datagram| datagram.destination == address));
            }
        };
        timed(&|| send(&pool, &[group]), Box::new(receive))
    };
    let plainly = || {
        let mut room = [0; 2048];
        let receive = || (0..BURST).for_each(|_| assert!(plain.recv_from(&mut room).is_ok()));
        timed(&|| assert!(plain.send_to(&bytes, own).is_ok()), Box::new(receive))
    };
    let mut batch = RxBatch::new(32);
    let empty = || assert_eq!(slot.recv(&mut batch).expect("receives"), 0);
    compare(
        BURSTS,
        vec![
            Case::burst("empty poll of a slot", 1, empty),
            Case::new("plain recvfrom of 64 B", "ns", plainly),
            Case::new("fabric, one packet of 64 B a receive", "ns", || from_slot(true, 1)),
            Case::new("  without header fields", "ns", || from_slot(false, 1)),
            Case::new("fabric, up to 32 packets a receive", "ns", || from_slot(true, 32)),
        ],
    );
    slot.tell_header_fields(true).expect("is set");
}
