//! Random requests with errors complete equally on every path: packets, another process, the same process.

use faults::Rng;
use smallvec::smallvec;
use transport::{AtomicOp, AttrMask, Completion, LKey, Payload, QpAttr, QpState, QpType, SendOp, SendWr, Status};
use wire::RKey;

use super::rig::*;
use crate::testing;
use crate::testing::EnginePath;

const SEEDS: u64 = 150;
const PHASES: u64 = 3;
/// The parts of a node's memory: for sends, for the peer's writes, for receives, and for results of READs and atomics.
const AREA_BYTES: usize = 64 << 10;
const SOURCE: usize = 0;
const TARGET: usize = AREA_BYTES;
const SINK: usize = 2 * AREA_BYTES;
const RESULT: usize = 3 * AREA_BYTES;

fn is_one_in(rng: &mut Rng, count: u64) -> bool {
    rng.below(count) == 0
}

/// A completion as the program sees it, without the number of the queue pair.
type Seen = (u64, Status, Option<(u32, Option<u32>)>);

fn seen(completion: &Completion) -> Seen {
    let success = completion.status == Status::Success;
    (completion.wr_id, completion.status, success.then_some((completion.byte_len, completion.imm)))
}

/// `late`: the peer posts its receives after the requests.
fn random_wr(rng: &mut Rng, wr_id: u64, late: bool, from: &Node, to: &Node) -> SendWr {
    let len = [0, 8, 8, 100, 1024, 5000, 40_000][rng.below(7) as usize];
    let spot = rng.below((AREA_BYTES - len) as u64) as usize / 8 * 8;
    let mut at = to.remote(TARGET + spot);
    let fault = rng.below(60);
    match fault {
        0 => at.addr += 1 << 30,
        1 => at.rkey = RKey(at.rkey.0 ^ 0x10_0000),
        _ => {}
    }
    let op = match rng.below(8) {
        0 | 1 => SendOp::Send,
        2 => SendOp::SendImm(rng.below(1000) as u32),
        3 => SendOp::Write(at),
        // A refused WRITE with immediate data fails a receive that is posted by then: a race if receives are late.
        4 if late && fault < 2 => SendOp::Write(at),
        4 => SendOp::WriteImm(at, rng.below(1000) as u32),
        5 => SendOp::Read(at),
        6 if len == 8 => SendOp::Atomic(at, AtomicOp::FetchAdd { add: rng.below(100) }),
        _ if len == 8 => SendOp::Atomic(at, AtomicOp::CompareSwap { compare: 0, swap: rng.below(9) }),
        _ => SendOp::Write(at),
    };
    let own = if matches!(op, SendOp::Read(_) | SendOp::Atomic(..)) { RESULT + spot } else { SOURCE };
    let mut wr = from.send_wr(wr_id, op, own, len);
    if is_one_in(rng, 80) {
        let entry = from.sge(own, len);
        wr.payload = Payload::Sgl(smallvec![transport::Sge { lkey: LKey(entry.lkey.0 ^ 0x10_0000), ..entry }]);
    }
    // Requests behind a READ or an atomic need not wait for its data.
    wr.flags |= transport::SendFlags::FENCE;
    wr
}

/// Completions of requests, completions of receives by node, and memory.
type Played = (Vec<Seen>, [Vec<Seen>; 2], Vec<u8>);

/// The completions, for a failed comparison.
fn summary((sent, received, _): &Played) -> (&[Seen], &[Vec<Seen>; 2]) {
    (sent, received)
}

/// Runs a few phases in which one node requests and the other responds, until a request fails.
fn play(seed: u64, nodes: [&Node; 2]) -> Played {
    let mut rng = Rng::new(seed);
    nodes.iter().for_each(|node| node.write(SOURCE, &pattern(seed as usize, AREA_BYTES)));
    let (mut sent, mut posted) = (Vec::new(), [0; 2]);
    for phase in 0..PHASES {
        let from = rng.below(2) as usize;
        let (asks, answers) = (nodes[from], nodes[1 - from]);
        let count = 1 + rng.below(8);
        let short = is_one_in(&mut rng, 20);
        let receive = |id| answers.post_recv(id, SINK, if short { 64 } else { AREA_BYTES });
        let late = is_one_in(&mut rng, 4);
        let ids = (0..count).map(|id| phase * 100 + id);
        let wrs: Vec<_> = ids.clone().map(|id| random_wr(&mut rng, id, late, asks, answers)).collect();
        if !late {
            ids.clone().for_each(receive);
        }
        asks.qp.post_send(wrs).unwrap();
        if late {
            answers.device.progress();
            ids.clone().for_each(receive);
        }
        posted[1 - from] += count;
        let completed: Vec<_> = ids.map(|_| seen(&next(&asks.send_cq))).collect();
        let failed = completed.iter().any(|(_, status, _)| *status != Status::Success);
        sent.extend(completed);
        if failed {
            break;
        }
    }
    let failed = sent.iter().any(|(_, status, _)| *status != Status::Success);
    let received = [0, 1].map(|side| {
        let error = QpAttr { state: QpState::Error, ..QpAttr::default() };
        nodes[side].qp.modify(&error, AttrMask::STATE).unwrap();
        (0..posted[side]).map(|_| seen(&nodes[side].received())).collect()
    });
    // The bytes of a refused message are not defined.
    let memory = if failed { Vec::new() } else { nodes.map(|node| node.read(TARGET, 3 * AREA_BYTES)).concat() };
    (sent, received, memory)
}

#[test]
fn every_path_completes_equally() {
    let played = [EnginePath::Packets, EnginePath::OneHost, EnginePath::OneProcess].map(|path| {
        let mut all = Vec::new();
        by(path, || {
            on_loopback(|group| {
                let devices = [1, 2].map(|slot| testing::open(group, slot, "lo"));
                for seed in 0..SEEDS {
                    let setup = Setup { memory_bytes: 4 * AREA_BYTES, ..Setup::new(QpType::Rc) };
                    let [a, b] = devices.clone().map(|device| Node::new(device, setup));
                    link(&a, &b);
                    all.push(play(seed, [&a, &b]));
                }
                let packets = devices[0].counters().get("tx_packets");
                assert_eq!(packets > 0, path == EnginePath::Packets, "{path:?}: {packets}");
            });
        });
        all
    });
    let [packets, host, process] = &played;
    let failed = packets.iter().filter(|(.., memory)| memory.is_empty()).count();
    assert!(failed > 15 && failed < SEEDS as usize - 30, "{failed} have failed");
    for seed in 0..SEEDS as usize {
        assert!(packets[seed] == host[seed], "seed {seed}: {:?}\n{:?}", summary(&packets[seed]), summary(&host[seed]));
        assert!(
            packets[seed] == process[seed],
            "seed {seed}: {:?}\n{:?}",
            summary(&packets[seed]),
            summary(&process[seed])
        );
    }
}
