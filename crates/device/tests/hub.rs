//! Devices of ordinary processes: attached to a hub that the first of them starts.
//!
//! Each test runs the test binary again, with a directory for the hub in its environment, and
//! that runs it once more for the process at the other end.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use longarm_device::{
    Access, AddressVector, AsyncEvent, AttrMask, Cq, Device, Gid, Mr, Mtu, OpenError, OpenOptions, Payload, Psn, Qp,
    QpAttr, QpCaps, QpSpec, QpState, QpType, Qpn, RKey, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Status,
};
use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(60);
const ROLE: &str = "LONGARM_TEST_ROLE";
const LEN: usize = 50_000;

/// Runs `body` in a process of its own with a hub's directory of its own, in a network
/// namespace of its own. To be called from the test function itself.
fn with_hub(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var(ROLE).as_deref() == Ok("body") {
        return body();
    }
    if std::env::var(ROLE).as_deref() == Ok("peer") {
        return be_peer();
    }
    let place = Place::new(test);
    let mut command = run_again(test, "body");
    command.env(hub::RUNTIME_DIR_VARIABLE, place.0.join("run"));
    command.envs(variables.iter().copied());
    let mut output = None;
    udp::testing::in_new_netns(|| output = Some(command.output().unwrap()));
    // For an ordinary user the namespace is another process, which has checked this already.
    let Some(output) = output else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

fn run_again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(ROLE, role);
    command
}

/// A directory, and the end of the hub in it.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("longarm-device-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = hub::client::shutdown(Some(&self.0.join("run")), true);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A queue pair and its memory.
struct End {
    device: Device,
    cq: Cq,
    qp: Qp,
    mr: Mr,
    gid: Gid,
}

impl End {
    fn new() -> End {
        let device = Device::open(&OpenOptions { name: Some("lo".into()) }).unwrap();
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(100, None, 0).unwrap();
        let mr = pd.allocate(1 << 18, Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        let caps = QpCaps { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 0 };
        let (send_cq, recv_cq) = (&cq, &cq);
        let qp_type = QpType::Rc;
        let qp = device
            .create_qp(&QpSpec { qp_type, pd: &pd, send_cq, recv_cq, srq: None, caps, signal_all: true })
            .unwrap();
        let gid = device.port().gids[0];
        End { device, cq, qp, mr, gid }
    }

    fn describe(&self) -> String {
        format!("{} {} {}", self.qp.qpn().get(), self.mr.addr(), self.mr.rkey().0)
    }

    /// Connects to what another end described; returns where its memory is.
    fn connect(&self, line: &str) -> RemoteAddr {
        let words: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let attr = QpAttr {
            access: Access::REMOTE_READ | Access::REMOTE_WRITE,
            address: AddressVector::new(self.gid, self.gid),
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
        let init = AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
        let rtr = AttrMask::AV
            | AttrMask::PATH_MTU
            | AttrMask::DEST_QPN
            | AttrMask::RQ_PSN
            | AttrMask::MAX_DEST_RD_ATOMIC
            | AttrMask::MIN_RNR_TIMER;
        let rts = AttrMask::SQ_PSN
            | AttrMask::TIMEOUT
            | AttrMask::RETRY_CNT
            | AttrMask::RNR_RETRY
            | AttrMask::MAX_QP_RD_ATOMIC;
        for (state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
            self.qp.modify(&QpAttr { state, ..attr }, mask | AttrMask::STATE).unwrap();
        }
        RemoteAddr { addr: words[1], rkey: RKey(words[2] as u32) }
    }

    fn run(&self, op: SendOp, offset: usize) {
        let sge = Sge { addr: self.mr.addr() + offset as u64, len_bytes: LEN as u32, lkey: self.mr.lkey() };
        let payload = Payload::Sgl([sge].into_iter().collect());
        self.qp
            .post_send([SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED, payload, datagram: None, xrc_srq: None }])
            .unwrap();
        let mut out = Vec::new();
        let start = Instant::now();
        while self.cq.poll(&mut out, 1).unwrap() == 0 {
            assert!(start.elapsed() < PATIENCE, "no completion");
        }
        assert_eq!(out[0].status, Status::Success, "{:?}", self.qp.failure());
    }

    /// Writes a pattern to the peer and reads it back.
    fn round_trip(&self, remote: RemoteAddr, seed: u8) {
        let part = |offset| self.mr.region().unwrap().span().part(offset, LEN).unwrap();
        let data: Vec<u8> = (0..LEN).map(|at| (at / 3) as u8 ^ seed).collect();
        part(0).write(&data);
        self.run(SendOp::Write(remote), 0);
        self.run(SendOp::Read(remote), LEN);
        let mut back = vec![0; LEN];
        part(LEN).read(&mut back);
        assert!(back == data, "what was written is read back");
    }
}

/// The process at the other end: connects and is there.
fn be_peer() {
    let end = End::new();
    println!("\npeer {}", end.describe());
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    end.connect(&line);
    println!("\nready");
    std::io::stdout().flush().unwrap();
    // Until the other side closes.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// The peer's process, as seen from here.
struct Peer {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(test: &str) -> Peer {
        let mut command = run_again(test, "peer");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Peer { child, lines }
    }

    fn line(&mut self, prefix: &str) -> String {
        let found = self.lines.by_ref().find_map(|line| line.unwrap().strip_prefix(prefix).map(str::to_owned));
        found.expect("the peer says more")
    }

    fn connect(&mut self, end: &End) -> RemoteAddr {
        let line = self.line("peer ");
        let remote = end.connect(&line);
        writeln!(self.child.stdin.as_mut().unwrap(), "{}", end.describe()).unwrap();
        self.line("ready");
        remote
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn two_processes_meet_at_a_hub() {
    const TEST: &str = "two_processes_meet_at_a_hub";
    with_hub(TEST, &[], || {
        let end = End::new();
        let mut peer = Peer::start(TEST);
        let remote = peer.connect(&end);
        for seed in 0..5 {
            end.round_trip(remote, seed);
        }
        let count = |name| end.device.counters().get(name);
        assert_eq!(["near_writes", "near_reads", "near_links", "tx_packets"].map(count), [5, 5, 1, 0]);
        // A few were not told yet.
        assert!(counted("near_reads").iter().sum::<u64>() >= 3);
    });
}

#[test]
fn two_processes_meet_on_the_wire_if_they_want_to() {
    const TEST: &str = "two_processes_meet_on_the_wire_if_they_want_to";
    with_hub(TEST, &[("LONGARM_LOCAL", "off")], || {
        let end = End::new();
        let mut peer = Peer::start(TEST);
        let remote = peer.connect(&end);
        for seed in 0..5 {
            end.round_trip(remote, seed);
        }
        assert!(counted("rx_packets").iter().all(|count| *count > 60));
        assert_eq!(counted("near_links"), [0, 0]);
    });
}

/// A counter of both processes, as the hub sees it.
fn counted(name: &str) -> Vec<u64> {
    let status = hub::client::status(None).unwrap();
    assert_eq!(status.clients.len(), 2, "{status:?}");
    status.clients.iter().filter_map(|client| client.counters.as_ref()?.get(name)).collect()
}

#[test]
fn the_hub_may_die() {
    const TEST: &str = "the_hub_may_die";
    with_hub(TEST, &[], || {
        let end = End::new();
        let mut peer = Peer::start(TEST);
        let remote = peer.connect(&end);
        end.round_trip(remote, 1);
        let first = hub::client::status(None).unwrap().pid;
        kill_process(Pid::from_raw(first as i32).unwrap(), Signal::KILL).unwrap();
        end.round_trip(remote, 2);
        eventually("both are known to a new hub", || {
            hub::client::status(None).is_ok_and(|status| status.pid != first && status.clients.len() == 2)
        });
        end.round_trip(remote, 3);
        let mut another = Peer::start(TEST);
        let other_end = End::new();
        let remote = another.connect(&other_end);
        other_end.round_trip(remote, 4);
        assert!(std::iter::from_fn(|| end.device.next_event()).all(|event| event != AsyncEvent::DeviceFatal));
    });
}

#[test]
fn a_process_has_one_engine() {
    with_hub("a_process_has_one_engine", &[], || {
        let names: Vec<_> = Device::list().unwrap().into_iter().map(|info| info.name).collect();
        assert!(names.iter().any(|name| name == "la_lo"), "{names:?}");
        let devices = [(); 3].map(|()| Device::open(&OpenOptions { name: Some("la_lo".into()) }).unwrap());
        assert_eq!(hub::client::status(None).unwrap().clients.len(), 1);
        drop(devices);
        eventually("the slot is given back", || hub::client::status(None).unwrap().clients.is_empty());
        let unknown = Device::open(&OpenOptions { name: Some("la_none".into()) }).unwrap_err();
        assert!(matches!(&unknown, OpenError::NoSuchDevice { known, .. } if known.contains("la_lo")), "{unknown}");
    });
}

#[test]
fn the_environment_injects_faults_and_captures() {
    const TEST: &str = "the_environment_injects_faults_and_captures";
    let file = std::env::temp_dir().join(format!("longarm-environment-{}.pcapng", std::process::id()));
    let path = std::env::var("LONGARM_CAPTURE").unwrap_or(file.display().to_string());
    let variables = [("LONGARM_FAULTS", "seed=3,loss=0.05,reorder=0.05"), ("LONGARM_CAPTURE", path.as_str())];
    with_hub(TEST, &variables, || {
        let end = End::new();
        let mut peer = Peer::start(TEST);
        let remote = peer.connect(&end);
        for seed in 0..10 {
            end.round_trip(remote, seed);
        }
        let counters = end.device.counters();
        assert!(counters.get("fault_lost") > 0 && counters.get("captured_packets") > 100, "{counters:?}");
        let captured = std::fs::metadata(&path).unwrap().len();
        assert!(captured > 10 * LEN as u64, "two processes do not write to one file");
        let of_peer = PathBuf::from(format!("{path}.{}", peer.child.id()));
        assert!(of_peer.exists());
        std::fs::remove_file(of_peer).unwrap();
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn nonsense_in_the_environment_is_told() {
    with_hub("nonsense_in_the_environment_is_told", &[("LONGARM_FAULTS", "lots")], || {
        let error = Device::open(&OpenOptions::default()).unwrap_err();
        assert!(error.to_string().contains("LONGARM_FAULTS"), "{error}");
        assert_eq!(error.errno(), libc::EINVAL);
    });
}
