//! A process that is introduced as any other, and then writes nonsense over all that it shares with
//! its victim, while an honest process and the victim go on.
//!
//! The test runs the test binary again for each of the three.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hub::client::{AttachOptions, LinkOffer, LocalOffer, Session, SessionEvent, Side, attach};
use local::{Export, LANES, Link, LinkEnds};
use longarm_device::{
    Access, AddressVector, AttrMask, Cq, Device, Mr, Mtu, OpenOptions, Payload, Psn, Qp, QpAttr, QpCaps, QpSpec,
    QpState, QpType, Qpn, RKey, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Status,
};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use transport::near::frame::HEAD_BYTES;

const PATIENCE: Duration = Duration::from_secs(60);
const ROLE: &str = "LONGARM_TEST_ROLE";
const TEST: &str = "a_hostile_neighbour_spoils_nothing_but_its_own_link";
const LEN: u32 = 20_000;
/// How long a hostile process is at it.
const ATTACK: Duration = Duration::from_millis(700);
/// Attacks of each kind.
const ATTACKS: u64 = 3;

#[test]
fn a_hostile_neighbour_spoils_nothing_but_its_own_link() {
    match std::env::var(ROLE).unwrap_or_default().as_str() {
        "victim" => be_victim(),
        "honest" => be_honest(),
        word if !word.is_empty() => be_hostile(word),
        _ => {
            let place = std::env::temp_dir().join(format!("longarm-device-hostile-{}", std::process::id()));
            let mut victim = run_again("victim");
            victim.env(hub::RUNTIME_DIR_VARIABLE, place.join("run"));
            let mut output = None;
            std::fs::create_dir(&place).unwrap();
            udp::testing::in_new_netns(|| output = Some(victim.output().unwrap()));
            let _ = hub::client::shutdown(Some(&place.join("run")), true);
            let _ = std::fs::remove_dir_all(&place);
            let Some(output) = output else { return };
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

fn run_again(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([TEST, "--exact", "--nocapture"]).env(ROLE, role);
    command
}

// ---- queue pairs ----

struct End {
    device: Device,
    cq: Cq,
    qp: Qp,
    mr: Mr,
}

impl End {
    fn on(device: &Device) -> End {
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(100, None, 0).unwrap();
        let mr = pd.allocate(1 << 18, Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        let caps = QpCaps { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 0 };
        let (send_cq, recv_cq, qp_type) = (&cq, &cq, QpType::Rc);
        let spec = QpSpec { qp_type, pd: &pd, send_cq, recv_cq, srq: None, caps, signal_all: true };
        let qp = device.create_qp(&spec).unwrap();
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let init = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
        qp.modify(&QpAttr { state: QpState::Init, access, ..QpAttr::default() }, init).unwrap();
        End { device: device.clone(), cq, qp, mr }
    }

    fn describe(&self) -> String {
        format!("{} {} {}", self.qp.qpn().get(), self.mr.addr(), self.mr.rkey().0)
    }

    fn connect(&self, line: &str) -> RemoteAddr {
        let words: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let gid = self.device.port().gids[0];
        let attr = QpAttr {
            address: AddressVector::new(gid, gid),
            path_mtu: Mtu::B4096,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            rq_psn: Psn::new(5),
            sq_psn: Psn::new(5),
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            min_rnr_timer: 1,
            dest_qpn: Qpn::new(words[0] as u32),
            ..QpAttr::default()
        };
        let rtr = AttrMask::AV
            | AttrMask::PATH_MTU
            | AttrMask::DEST_QPN
            | AttrMask::RQ_PSN
            | AttrMask::MAX_DEST_RD_ATOMIC
            | AttrMask::MIN_RNR_TIMER;
        let rts = AttrMask::TIMEOUT
            | AttrMask::RETRY_CNT
            | AttrMask::RNR_RETRY
            | AttrMask::SQ_PSN
            | AttrMask::MAX_QP_RD_ATOMIC;
        for (state, mask) in [(QpState::Rtr, rtr), (QpState::Rts, rts)] {
            self.qp.modify(&QpAttr { state, ..attr }, AttrMask::STATE | mask).unwrap();
        }
        RemoteAddr { addr: words[1], rkey: RKey(words[2] as u32) }
    }

    fn sge(&self, offset: u64) -> Sge {
        Sge { addr: self.mr.addr() + offset, len_bytes: LEN, lkey: self.mr.lkey() }
    }

    fn post(&self, op: SendOp, offset: u64) {
        let payload = Payload::Sgl([self.sge(offset)].into_iter().collect());
        let wr = SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED, payload, datagram: None, xrc_srq: None };
        // A queue pair that has failed takes requests, too, until its queue is full.
        let _ = self.qp.post_send([wr]);
    }

    fn receive(&self) {
        let sgl = [self.sge(1 << 17)].into_iter().collect();
        self.qp.post_recv([RecvWr { wr_id: 2, sgl }]).unwrap();
    }

    /// Waits for so many completions, all of which must be good.
    fn wait(&self, count: usize) {
        let mut out = Vec::new();
        let start = Instant::now();
        while out.len() < count {
            self.cq.poll(&mut out, count).unwrap();
            assert!(start.elapsed() < PATIENCE, "no completion");
        }
        assert!(out.iter().all(|wc| wc.status == Status::Success), "{out:?}: {:?}", self.qp.failure());
    }
}

fn open() -> Device {
    Device::open(&OpenOptions { name: Some("lo".into()) }).unwrap()
}

// ---- processes ----

/// Another process, as the victim sees it.
struct Other {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(role: &str, arguments: &str) -> Other {
        let mut command = run_again(role);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{arguments}").unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Other { child, lines }
    }

    fn line(&mut self, prefix: &str) -> String {
        let found = self.lines.by_ref().find_map(|line| line.unwrap().strip_prefix(prefix).map(str::to_owned));
        found.unwrap_or_else(|| panic!("the other process never said {prefix:?}"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn heard() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line
}

fn say(line: &str) {
    println!("\n{line}");
    std::io::stdout().flush().unwrap();
}

/// Sends back what it gets.
fn be_honest() {
    heard();
    let end = End::on(&open());
    end.receive();
    say(&format!("honest {}", end.describe()));
    end.connect(&heard());
    say("ready");
    loop {
        end.wait(1);
        end.receive();
        end.post(SendOp::Send, 1 << 17);
        end.wait(1);
    }
}

fn be_victim() {
    let device = open();
    let end = End::on(&device);
    let mut honest = Other::start("honest", "");
    let remote = end.connect(&honest.line("honest "));
    writeln!(honest.child.stdin.as_mut().unwrap(), "{}", end.describe()).unwrap();
    honest.line("ready");
    for kind in ["heads", "link", "socket", "export"] {
        for seed in 1..=ATTACKS {
            let target = End::on(&device);
            let mut hostile = Other::start(&format!("{kind} {seed}"), &target.describe());
            target.connect(&format!("{} 4096 4096", hostile.line("hostile ")));
            target.receive();
            let start = Instant::now();
            for round in (0..=u8::MAX).cycle() {
                for op in [SendOp::Send, SendOp::Write(remote), SendOp::Read(remote)] {
                    target.post(op, 0);
                }
                exchange(&end, remote, round);
                target.cq.poll(&mut Vec::new(), 100).unwrap();
                if start.elapsed() > ATTACK {
                    break;
                }
            }
            // Both of these wait for accesses of peers; a hostile one does not hold them up.
            drop(target);
        }
    }
    let counters = device.counters();
    assert!(counters.get("near_links_broken") >= 1, "{counters:?}");
    assert_eq!(counters.get("background_panics"), 0);
    exchange(&end, remote, 0);
}

/// A message there and back, and the peer's memory written and read.
fn exchange(end: &End, remote: RemoteAddr, round: u8) {
    let part = |offset| end.mr.region().unwrap().span().part(offset, LEN as usize).unwrap();
    let data: Vec<u8> = (0..LEN).map(|at| (at / 5) as u8 ^ round).collect();
    part(0).write(&data);
    end.receive();
    end.post(SendOp::Send, 0);
    end.wait(2);
    let mut back = vec![0; LEN as usize];
    part(1 << 17).read(&mut back);
    assert!(back == data, "what was sent comes back");
    end.post(SendOp::Write(remote), 0);
    end.post(SendOp::Read(remote), 1 << 16);
    end.wait(2);
    part(1 << 16).read(&mut back);
    assert!(back == data, "what was written is read back");
}

// ---- the hostile one ----

struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn be_hostile(word: &str) {
    let (kind, seed) = word.split_once(' ').unwrap();
    let mut dice = Dice(seed.parse::<u64>().unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let victim = Qpn::new(heard().split_whitespace().next().unwrap().parse().unwrap());
    let registry = memory::Registry::from_entropy().unwrap();
    let export = Export::new(&registry.remote_keys()).unwrap();
    let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let offer = LocalOffer { export: Arc::new(export.fd().try_clone_to_owned().unwrap()), wake: Arc::new(wake) };
    let mut session = attach(&AttachOptions { local: Some(offer), ..AttachOptions::default() }).unwrap();
    let (ours, theirs) = Link::create().unwrap();
    session.introduce(victim.slot(), LinkOffer { link: theirs.link, socket: theirs.socket }).unwrap();
    let introduction = introduced(&mut session);
    assert!(matches!(introduction.side, Side::Asked));
    let with = local::Introduction { export: introduction.export, wake: introduction.wake, pid: introduction.pid };
    let copies = (ours.link.try_clone().unwrap(), ours.socket.try_clone().unwrap());
    let link = Link::open(LinkEnds { link: ours.link, socket: ours.socket }, with, local::Side::Asked).unwrap();
    link.confirm();
    assert!(link.wait_confirmed(PATIENCE));
    let own = Qpn::new(u32::from(session.slot()) << 16 | 7);
    say(&format!("hostile {}", own.get()));
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match kind {
            "heads" => send_heads(&link, own, victim, &mut dice),
            "link" => overwrite(copies.0.as_fd(), &mut dice),
            "export" => overwrite(export.fd(), &mut dice),
            _ => drop(rustix::io::write(&copies.1, &dice.roll().to_ne_bytes()[..1 + dice.0 as usize % 8])),
        }
        link.peer().wake();
    }
}

fn introduced(session: &mut Session) -> hub::client::Introduction {
    let start = Instant::now();
    loop {
        session.maintain(Instant::now());
        match session.next_event() {
            Some(SessionEvent::Introduced(introduction)) => return introduction,
            Some(SessionEvent::NotIntroduced { reason, .. }) => panic!("{reason:?}"),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
        assert!(start.elapsed() < PATIENCE, "nobody was introduced");
    }
}

/// Frames whose heads are nearly right.
fn send_heads(link: &Link, own: Qpn, victim: Qpn, dice: &mut Dice) {
    for _ in 0..1000 {
        let mut lane = link.producer(dice.roll() as usize % LANES);
        let body = dice.roll() as usize % 3000;
        let Some(mut room) = lane.reserve(HEAD_BYTES + body) else { return };
        // Now and then for another queue pair than ours.
        let to = if dice.roll().is_multiple_of(8) { Qpn::new(victim.get() ^ (dice.roll() as u32 & 3)) } else { victim };
        let kind = (dice.roll() % 20) as u32 | (dice.roll() as u32 & 0x0007_1f00);
        let words = [kind, own.get(), to.get(), dice.roll() as u32 % 4, dice.roll() as u32 % 4, body as u32, 9];
        room.write(0, &words.map(u32::to_le_bytes).concat());
        room.write(HEAD_BYTES, &dice.roll().to_ne_bytes().repeat(body / 8 + 1)[..body]);
        room.commit();
    }
}

/// Random words all over a shared file; some places more often than others.
#[allow(unsafe_code, reason = "a hostile process writes where it likes")]
fn overwrite(file: std::os::fd::BorrowedFd<'_>, dice: &mut Dice) {
    let len = rustix::fs::fstat(file).unwrap().st_size as usize;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a mapping of its own, at an address that the kernel chooses.
    let mapped = unsafe { mmap(std::ptr::null_mut(), len, rights, MapFlags::SHARED, file, 0) }.unwrap();
    for _ in 0..50_000 {
        let room = if dice.roll().is_multiple_of(2) { len } else { len.min(64 << 10) };
        let at = dice.roll() as usize % (room / 8);
        let word = if dice.roll().is_multiple_of(2) { dice.roll() } else { dice.roll() % 256 };
        // SAFETY: within the mapping; nobody has a reference into it.
        unsafe { mapped.cast::<u64>().add(at).write_volatile(word) };
    }
    // SAFETY: our own mapping, made above.
    unsafe { rustix::mm::munmap(mapped, len) }.unwrap();
}
