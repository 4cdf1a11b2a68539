//! The cost of operations on shared memory: frames, polls, hazards and keys. Prints the best of several
//! rounds.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use longarm_shm::{Export, IntroducedPeer, Link, LinkSide};
use memory::{Access, PdId, RemoteKeys, SharedKey};
use rustix::event::{EventfdFlags, eventfd};
use wire::RKey;

const ROUNDS: usize = 7;
const COUNT: u32 = 200_000;

struct Couple {
    exports: [Export; 2],
    links: [Link; 2],
}

fn couple() -> Couple {
    let keys = RemoteKeys::from_words(&[0; RemoteKeys::WORDS]).expect("as many words");
    let exports = [(); 2].map(|()| Export::new(&keys).expect("an export"));
    let with = |of: &Export| {
        let export: OwnedFd = of.fd().try_clone_to_owned().expect("a descriptor");
        IntroducedPeer { export, wake: eventfd(0, EventfdFlags::NONBLOCK).expect("a bell"), pid: std::process::id() }
    };
    let (ours, theirs) = Link::create().expect("a link");
    let one = Link::open(ours, with(&exports[1]), LinkSide::Asked).expect("one end");
    let other = Link::open(theirs, with(&exports[0]), LinkSide::Offered).expect("the other end");
    Couple { exports, links: [one, other] }
}

fn report(what: &str, mut round: impl FnMut() -> u32) {
    let best = (0..ROUNDS).map(|_| {
        let begin = Instant::now();
        let count = round();
        begin.elapsed().as_nanos() as f64 / f64::from(count)
    });
    println!("{what:44} {:8.1} ns", best.fold(f64::MAX, f64::min));
}

fn send(link: &Link, bytes: &[u8]) -> bool {
    let mut producer = link.producer(0);
    let Some(mut room) = producer.reserve(bytes.len()) else { return false };
    room.write(0, bytes);
    room.commit();
    true
}

fn take(link: &Link, out: &mut [u8]) -> bool {
    let Some(mut consumer) = link.consumer(0) else { return false };
    let Some(frame) = consumer.peek() else { return false };
    let len = frame.len_bytes().min(out.len());
    let _ = black_box(frame.copy_out(0, &mut out[..len]));
    frame.release();
    true
}

fn alone(couple: &Couple) {
    let [a, b] = &couple.links;
    let mut out = [0; 64];
    report("send and take a frame of 48 bytes, one thread", || {
        for _ in 0..COUNT {
            assert!(send(a, &[1; 48]) && take(b, &mut out));
        }
        COUNT
    });
    report("reserve, write, commit in batches of 256", || {
        for _ in 0..COUNT / 256 {
            let mut producer = a.producer(0);
            for _ in 0..256 {
                let mut room = producer.reserve(48).expect("room");
                room.write(0, &[1; 48]);
                room.commit();
            }
            drop(producer);
            let mut consumer = b.consumer(0).expect("free");
            while let Some(frame) = consumer.peek() {
                frame.release();
            }
        }
        COUNT / 256 * 256
    });
    report("poll one empty lane", || {
        (0..COUNT).for_each(|_| assert_eq!(black_box(b.waiting()), 0));
        COUNT
    });
    report("enter and leave a hazard", || {
        (0..COUNT).for_each(|number| drop(black_box(a.enter(number as u16))));
        COUNT
    });
    let key = SharedKey {
        rkey: RKey(0x1234_5600),
        pd: PdId(1),
        access: Access::REMOTE_WRITE,
        only: None,
        base: 0,
        len_bytes: 4096,
        start: 0,
        place: None,
    };
    let slot = RemoteKeys::from_words(&[0; RemoteKeys::WORDS]).expect("as many words").slot(key.rkey);
    couple.exports[1].open_key(slot, &key);
    report("find a key", || {
        (0..COUNT).for_each(|_| assert!(black_box(a.peer().key(key.rkey)).is_some()));
        COUNT
    });
    report("say asleep and awake", || {
        for _ in 0..1000 {
            couple.exports[0].fall_asleep(false);
            couple.exports[0].wake_up();
        }
        1000
    });
}

/// One thread echoes the frames of the other.
fn ping_pong(couple: &Couple, len: usize) {
    let [a, b] = &couple.links;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut out = vec![0; len];
            while !stop.load(Relaxed) {
                if b.waiting() != 0 && take(b, &mut out) {
                    while !send(b, &out) {}
                }
            }
        });
        let mut out = vec![0; len];
        report(&format!("one way, {len} bytes, two threads"), || {
            for _ in 0..COUNT / 4 {
                while !send(a, &out) {}
                while a.waiting() == 0 || !take(a, &mut out) {
                    std::hint::spin_loop();
                }
            }
            COUNT / 2
        });
        stop.store(true, Relaxed);
    });
}

/// One thread sends and the other receives, as fast as possible.
fn stream(couple: &Couple, len: usize) {
    let [a, b] = &couple.links;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut out = vec![0; len];
            while !stop.load(Relaxed) {
                let Some(mut consumer) = b.consumer(0) else { continue };
                while let Some(frame) = consumer.peek() {
                    let _ = black_box(frame.copy_out(0, &mut out));
                    frame.release();
                }
            }
        });
        let bytes = vec![1; len];
        report(&format!("per frame, {len} bytes streamed to a thread"), || {
            for _ in 0..COUNT {
                while !send(a, &bytes) {
                    std::hint::spin_loop();
                }
            }
            COUNT
        });
        stop.store(true, Relaxed);
    });
}

fn main() {
    let couple = couple();
    alone(&couple);
    for len in [8, 48, 256, 4096] {
        ping_pong(&couple, len);
    }
    for len in [8, 48, 256, 4096, 16384] {
        stream(&couple, len);
    }
}
