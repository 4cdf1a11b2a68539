//! A hostile process writes random bytes over everything that it shares with its victim, after an ordinary
//! introduction. An honest process and the victim continue.
//!
//! The test runs the test binary again for each of the three.

#[path = "support/mod.rs"]
mod support;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use faults::Rng;
use hub::client::{AttachOptions, RequestedBy, Session, SessionEvent, ShmLinkOffer, ShmOffer, attach};
use longarm_device::{Qpn, RemoteAddr, SendOp};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use shm::{Export, LANES, Link, LinkEnds};
use support::{End, Other, heard, meet, open, run_apart, say};
use testkit::{PATIENCE, wait_for};
use transport::shm::frame::HEAD_BYTES;

const TEST: &str = "a_hostile_peer_on_this_host_harms_only_its_own_link";
const LEN: usize = 20_000;
/// The offset at which messages arrive.
const INBOX: usize = 1 << 17;
/// The time for which a hostile process attacks.
const ATTACK: Duration = Duration::from_millis(700);
/// Attacks of each kind.
const ATTACKS: u64 = 3;

#[test]
fn a_hostile_peer_on_this_host_harms_only_its_own_link() {
    match testkit::role().unwrap_or_default().as_str() {
        "victim" => be_victim(),
        "honest" => be_honest(),
        word if !word.is_empty() => be_hostile(word),
        _ => run_apart(TEST, "victim"),
    }
}

// ---- processes ----

/// Sends every message back.
fn be_honest() {
    let end = End::on(&open());
    meet(&end);
    // A message that comes before its receive is sent again.
    loop {
        end.receive(INBOX, LEN);
        end.wait(1);
        end.post(SendOp::Send, INBOX, LEN).unwrap();
        end.wait(1);
    }
}

fn be_victim() {
    let device = open();
    let end = End::on(&device);
    let mut honest = Other::start(TEST, "honest");
    let remote = honest.connect(&end);
    for kind in ["heads", "link", "socket", "export"] {
        for seed in 1..=ATTACKS {
            let target = End::on(&device);
            let mut hostile = Other::start(TEST, &format!("{kind} {seed}"));
            hostile.tell(&target.describe());
            target.connect(&format!("{} 4096 4096", hostile.line("hostile ")));
            target.receive(INBOX, LEN);
            let start = Instant::now();
            for round in (0..=u8::MAX).cycle() {
                for op in [SendOp::Send, SendOp::Write(remote), SendOp::Read(remote)] {
                    // A queue pair that has failed takes requests as well, until its queue is full.
                    let _ = target.post(op, 0, LEN);
                }
                exchange(&end, remote, round);
                target.cq.poll(&mut Vec::new(), 100).unwrap();
                if start.elapsed() > ATTACK {
                    break;
                }
            }
            // Both calls wait for accesses of peers. A hostile peer does not delay them.
            drop(target);
        }
    }
    let counters = device.counters();
    assert!(counters.get("shm_links_broken") >= 1, "{counters:?}");
    assert_eq!(counters.get("background_panics"), 0);
    exchange(&end, remote, 0);
}

/// Exchanges a message, and writes and reads the peer's memory.
fn exchange(end: &End, remote: RemoteAddr, round: u8) {
    let data: Vec<u8> = (0..LEN).map(|at| (at / 5) as u8 ^ round).collect();
    end.fill(0, &data);
    end.receive(INBOX, LEN);
    end.post(SendOp::Send, 0, LEN).unwrap();
    end.wait(2);
    assert!(end.bytes(INBOX, LEN) == data, "what was sent comes back");
    end.post(SendOp::Write(remote), 0, LEN).unwrap();
    end.post(SendOp::Read(remote), INBOX / 2, LEN).unwrap();
    end.wait(2);
    assert!(end.bytes(INBOX / 2, LEN) == data, "what was written is read back");
}

// ---- the hostile one ----

fn be_hostile(word: &str) {
    let (kind, seed) = word.split_once(' ').unwrap();
    let mut rng = Rng::new(seed.parse().unwrap());
    let victim = Qpn::new(heard().split_whitespace().next().unwrap().parse().unwrap());
    let registry = memory::Registry::from_entropy().unwrap();
    let export = Export::new(&registry.remote_keys()).unwrap();
    let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let offer = ShmOffer { export: Arc::new(export.fd().try_clone_to_owned().unwrap()), wake: Arc::new(wake) };
    let mut session = attach(&AttachOptions { shm: Some(offer), ..AttachOptions::default() }).unwrap();
    let (ours, theirs) = Link::create().unwrap();
    session.introduce(victim.slot(), ShmLinkOffer { link: theirs.link, socket: theirs.socket }).unwrap();
    let introduction = introduced(&mut session);
    assert!(matches!(introduction.requested_by, RequestedBy::ThisProcess));
    let with = shm::IntroducedPeer { export: introduction.export, wake: introduction.wake, pid: introduction.pid };
    let copies = (ours.link.try_clone().unwrap(), ours.socket.try_clone().unwrap());
    let link = Link::open(LinkEnds { link: ours.link, socket: ours.socket }, with, shm::LinkSide::Asked).unwrap();
    link.confirm();
    assert!(link.wait_confirmed(PATIENCE));
    let own = Qpn::new(u32::from(session.slot()) << 16 | 7);
    say(&format!("hostile {}", own.get()));
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match kind {
            "heads" => send_heads(&link, own, victim, &mut rng),
            "link" => overwrite(copies.0.as_fd(), &mut rng),
            "export" => overwrite(export.fd(), &mut rng),
            _ => drop(rustix::io::write(&copies.1, &rng.next_u64().to_ne_bytes()[..1 + rng.below(8) as usize])),
        }
        link.peer().wake();
    }
}

fn introduced(session: &mut Session) -> hub::client::Introduction {
    wait_for("an introduction", || {
        session.maintain(Instant::now());
        match session.next_event()? {
            SessionEvent::Introduced(introduction) => Some(introduction),
            SessionEvent::NotIntroduced { reason, .. } => panic!("{reason:?}"),
            _ => None,
        }
    })
}

/// Sends frames with nearly correct heads.
fn send_heads(link: &Link, own: Qpn, victim: Qpn, rng: &mut Rng) {
    for _ in 0..1000 {
        let mut lane = link.producer(rng.next_u64() as usize % LANES);
        let body = rng.next_u64() as usize % 3000;
        let Some(mut room) = lane.reserve(HEAD_BYTES + body) else { return };
        // Now and then the frame is for another queue pair.
        let to = if rng.next_u64().is_multiple_of(8) {
            Qpn::new(victim.get() ^ (rng.next_u64() as u32 & 3))
        } else {
            victim
        };
        let kind = (rng.next_u64() % 20) as u32 | (rng.next_u64() as u32 & 0x0007_1f00);
        let words = [kind, own.get(), to.get(), rng.next_u64() as u32 % 4, rng.next_u64() as u32 % 4, body as u32, 9];
        room.write(0, &words.map(u32::to_le_bytes).concat());
        room.write(HEAD_BYTES, &rng.next_u64().to_ne_bytes().repeat(body / 8 + 1)[..body]);
        room.commit();
    }
}

/// Writes random words all over a shared file, at some offsets more often than at others.
#[allow(unsafe_code, reason = "a hostile process writes where it likes")]
fn overwrite(file: std::os::fd::BorrowedFd<'_>, rng: &mut Rng) {
    let len = rustix::fs::fstat(file).unwrap().st_size as usize;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the address, so the mapping overlaps no other memory.
    let mapped = unsafe { mmap(std::ptr::null_mut(), len, rights, MapFlags::SHARED, file, 0) }.unwrap();
    for _ in 0..50_000 {
        let room = if rng.next_u64().is_multiple_of(2) { len } else { len.min(64 << 10) };
        let at = rng.next_u64() as usize % (room / 8);
        let word = if rng.next_u64().is_multiple_of(2) { rng.next_u64() } else { rng.next_u64() % 256 };
        // SAFETY: the offset is within the mapping, to which no reference exists.
        unsafe { mapped.cast::<u64>().add(at).write_volatile(word) };
    }
    // SAFETY: it unmaps exactly the mapping that was made above.
    unsafe { rustix::mm::munmap(mapped, len) }.unwrap();
}
