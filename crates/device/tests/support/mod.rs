//! Helpers for tests with several processes: a queue pair with its memory, and further runs of the test binary.
#![allow(dead_code)] // Each test file uses its own part.

pub(crate) mod place;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};

use longarm_device::{
    Access, AddressVector, AttrMask, Completion, Cq, Device, Mr, Mtu, OpenOptions, Payload, PostFailure, Psn, QKey, Qp,
    QpAttr, QpCaps, QpSpec, QpState, QpType, Qpn, RKey, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Status,
};
use testkit::{run_again, wait_until};

const RIGHTS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE).union(Access::REMOTE_ATOMIC);
/// The queue key of datagrams.
pub(crate) const QKEY: QKey = QKey(0x1234);

pub(crate) fn open() -> Device {
    Device::open(&OpenOptions { name: Some("lo".into()) }).unwrap()
}

/// A queue pair and its memory.
pub(crate) struct End {
    pub(crate) device: Device,
    pub(crate) qp_type: QpType,
    pub(crate) cq: Cq,
    pub(crate) qp: Qp,
    pub(crate) mr: Mr,
}

impl End {
    pub(crate) fn on(device: &Device) -> End {
        End::of(device, QpType::Rc)
    }

    pub(crate) fn of(device: &Device, qp_type: QpType) -> End {
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(100, None, 0).unwrap();
        let mr = pd.allocate(1 << 18, Access::LOCAL_WRITE | RIGHTS).unwrap();
        let caps = QpCaps { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 0 };
        let (send_cq, recv_cq) = (&cq, &cq);
        let spec = QpSpec { qp_type, pd: &pd, send_cq, recv_cq, srq: None, caps, signal_all: true };
        let qp = device.create_qp(&spec).unwrap();
        End { device: device.clone(), qp_type, cq, qp, mr }
    }

    pub(crate) fn describe(&self) -> String {
        format!("{} {} {}", self.qp.qpn().get(), self.mr.addr(), self.mr.rkey().0)
    }

    /// Connects to the queue pair that `line` describes. Returns the address of its memory.
    pub(crate) fn connect(&self, line: &str) -> RemoteAddr {
        let words: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let gid = self.device.port().gids[0];
        let attr = QpAttr {
            access: RIGHTS,
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
            qkey: QKEY,
            ..QpAttr::default()
        };
        for (state, mask) in steps(self.qp_type) {
            self.qp.modify(&QpAttr { state, ..attr }, mask | AttrMask::STATE).unwrap();
        }
        RemoteAddr { addr: words[1], rkey: RKey(words[2] as u32) }
    }

    pub(crate) fn sge(&self, offset: usize, len: usize) -> Sge {
        Sge { addr: self.mr.addr() + offset as u64, len_bytes: len as u32, lkey: self.mr.lkey() }
    }

    pub(crate) fn post(&self, op: SendOp, offset: usize, len: usize) -> Result<(), PostFailure> {
        let payload = Payload::Sgl([self.sge(offset, len)].into_iter().collect());
        let wr = SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED, payload, datagram: None, xrc_srq: None };
        self.qp.post_send([wr])
    }

    pub(crate) fn receive(&self, offset: usize, len: usize) {
        let sgl = [self.sge(offset, len)].into_iter().collect();
        self.qp.post_recv([RecvWr { wr_id: 2, sgl }]).unwrap();
    }

    /// Waits for this many completions.
    pub(crate) fn completions(&self, count: usize) -> Vec<Completion> {
        let mut out = Vec::new();
        wait_until("completions", || {
            self.cq.poll(&mut out, count).unwrap();
            out.len() >= count
        });
        out
    }

    /// Waits for this many completions, all of which must be successes.
    pub(crate) fn wait(&self, count: usize) {
        let out = self.completions(count);
        assert!(out.iter().all(|wc| wc.status == Status::Success), "{out:?}: {:?}", self.qp.failure());
    }

    pub(crate) fn fill(&self, offset: usize, bytes: &[u8]) {
        self.mr.region().unwrap().span().part(offset, bytes.len()).unwrap().write(bytes);
    }

    pub(crate) fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.mr.region().unwrap().span().part(offset, len).unwrap().read(&mut bytes);
        bytes
    }
}

/// The states and attributes on the way to RTS.
fn steps(qp_type: QpType) -> [(QpState, AttrMask); 3] {
    use AttrMask as M;
    let init = M::PKEY_INDEX | M::PORT;
    let path = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
    let (init, rtr, rts) = match qp_type {
        QpType::Ud => (init | M::QKEY, M::empty(), M::empty()),
        QpType::Uc => (init | M::ACCESS_FLAGS, path, M::empty()),
        _ => {
            let rts = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
            (init | M::ACCESS_FLAGS, path | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER, rts)
        }
    };
    [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts | M::SQ_PSN)]
}

/// Runs the process with a role in a network namespace with a hub of its own. It must succeed. If the system permits no
/// namespaces, it runs nothing, as all tests of that kind do.
pub(crate) fn run_apart(test: &str, role: &str) {
    hub::testing::passes_with_hub(&format!("device-{role}"), run_again(test, role));
}

/// Another process, which ends when this is dropped.
pub(crate) struct Other {
    pub(crate) child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Other {
    pub(crate) fn start(test: &str, role: &str) -> Other {
        let mut child = run_again(test, role).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Other { child, lines }
    }

    /// Sends a line to its [`heard`].
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The rest of the line that it [says](say) after `prefix`.
    pub(crate) fn line(&mut self, prefix: &str) -> String {
        let found = self.lines.by_ref().find_map(|line| line.unwrap().strip_prefix(prefix).map(str::to_owned));
        found.unwrap_or_else(|| panic!("the other process never said {prefix:?}"))
    }

    /// Connects with the process: it says `peer` and its description, gets ours, and says `ready`.
    pub(crate) fn connect(&mut self, end: &End) -> RemoteAddr {
        let line = self.line("peer ");
        let remote = end.connect(&line);
        self.tell(&end.describe());
        self.line("ready");
        remote
    }
}

impl Other {
    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Connects in the other process, as [`Other::connect`] expects it.
pub(crate) fn meet(end: &End) {
    say(&format!("peer {}", end.describe()));
    end.connect(&heard());
    say("ready");
}

pub(crate) fn heard() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line
}

pub(crate) fn say(line: &str) {
    println!("\n{line}");
    std::io::stdout().flush().unwrap();
}
