//! The cost of idle engines and the memory of idle queue pairs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use transport::{QpCaps, QpType, SendOp};

use super::rig::*;
use crate::handles::qp::QpSpec;

/// Counts the bytes that the thread of a test has allocated and not freed.
struct Counting;

thread_local! {
    static BYTES: AtomicUsize = const { AtomicUsize::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged. This adds only a counter.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = BYTES.try_with(|bytes| bytes.fetch_add(layout.size(), Relaxed));
        // SAFETY: the caller keeps the contract of `GlobalAlloc`, which is that of the system's allocator, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let _ = BYTES.try_with(|bytes| bytes.fetch_sub(layout.size(), Relaxed));
        // SAFETY: the caller keeps the contract of `GlobalAlloc`, which is that of the system's allocator, too.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_idle_queue_pair_takes_little_memory() {
    const COUNT: usize = 2000;
    const MOST_BYTES: usize = 4096;
    on_loopback(|group| {
        let a = Node::new(crate::testing::open(group, 1, "lo"), Setup::new(QpType::Rc));
        let caps = QpCaps { max_send_wr: 1024, max_recv_wr: 1024, ..CAPS };
        let spec = QpSpec {
            qp_type: QpType::Rc,
            pd: &a.pd,
            send_cq: &a.send_cq,
            recv_cq: &a.recv_cq,
            srq: None,
            caps,
            signal_all: true,
        };
        let bytes = || BYTES.with(|bytes| bytes.load(Relaxed));
        let before = bytes();
        let qps: Vec<_> = (0..COUNT).map(|_| a.device.create_qp(&spec).unwrap()).collect();
        for pair in qps.chunks(2) {
            connect(&pair[0], a.gid, pair[1].qpn(), a.gid, transport::Mtu::B1024);
            connect(&pair[1], a.gid, pair[0].qpn(), a.gid, transport::Mtu::B1024);
        }
        let each = (bytes() - before) / COUNT;
        assert!(each <= MOST_BYTES, "{each} bytes for each queue pair");
    });
}

/// The processor time of the engines' threads in this network namespace, which only this test uses.
fn background_time() -> Duration {
    let netns = |path: &Path| std::fs::read_link(path.join("ns/net")).ok();
    let ours = netns(Path::new("/proc/thread-self"));
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|task| Some(task.ok()?.path()));
    let times = tasks.filter(|task| netns(task) == ours).filter_map(|task| {
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        let stat = std::fs::read_to_string(task.join("schedstat")).ok()?;
        (name.trim() == "longarm").then(|| stat.split_whitespace().next()?.parse::<u64>().ok()).flatten()
    });
    Duration::from_nanos(times.sum::<u64>())
}

#[test]
fn an_idle_engine_uses_no_processor() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        a.send(1, SendOp::Write(b.remote(0)), 0, 100_000);
        a.sent();
        // Deadlines that were entered meanwhile come up, and turn out to have moved.
        std::thread::sleep(Duration::from_millis(500));
        let before = background_time();
        assert!(before > Duration::ZERO, "the threads were found");
        std::thread::sleep(Duration::from_secs(1));
        let used = background_time() - before;
        assert!(used < Duration::from_millis(2), "{used:?} in a second of doing nothing");
    });
}

#[test]
fn the_background_thread_keeps_away_from_an_application_that_polls() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let mut echoes = 0u64;
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(500) {
            a.post_recv(0, 0, 8);
            b.post_recv(0, 0, 8);
            a.send(1, SendOp::Send, 0, 8);
            b.received();
            b.send(1, SendOp::Send, 0, 8);
            a.received();
            a.sent();
            b.sent();
            echoes += 1;
        }
        let takeovers = [&a, &b].map(|node| node.device.counters().get("background_takeovers"));
        assert!(takeovers.iter().sum::<u64>() < echoes / 4 + 10, "{takeovers:?} in {echoes} echoes");
    });
}

#[test]
fn the_background_thread_stands_in_for_a_program_that_reads_memory_between_polls() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let start = Instant::now();
        for round in (1..=u8::MAX).cycle() {
            a.write(0, &[round]);
            for _ in 0..50 {
                b.send_cq.poll(&mut Vec::new(), 1).unwrap();
            }
            // From here on node b does not poll.
            a.send(1, SendOp::Write(b.remote(0)), 0, 1);
            wait_until("the byte", || b.read(0, 1) == [round]);
            a.sent();
            if b.device.counters().get("background_stand_ins") > 0 {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "nobody stood in: {:?}", b.device.counters());
        }
    });
}
