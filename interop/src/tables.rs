//! The programs that are run. Iterations are few because the guest is emulated.

use crate::case::Case;
use crate::connections::{CONNECTION_FAULTS, CONNECTIONS, PERFTEST_CM, STREAMS};

/// Cases of one kind.
pub(crate) struct CaseGroup {
    pub(crate) title: &'static str,
    pub(crate) cases: &'static [Case],
}

const fn ping(program: &'static str, options: &'static str) -> Case {
    Case::ping(program, options)
}

const fn perf(program: &'static str, options: &'static str) -> Case {
    Case::perf(program, options)
}

pub(crate) const GROUPS: [CaseGroup; 11] = [
    PING_PONG,
    PING_PONG_JUMBO,
    SEND,
    WRITE,
    READ,
    ATOMIC,
    FAULTS,
    CONNECTIONS,
    STREAMS,
    PERFTEST_CM,
    CONNECTION_FAULTS,
];

const PING_PONG: CaseGroup = CaseGroup {
    title: "ibverbs-utils",
    cases: &[
        ping("ibv_rc_pingpong", "-c -n 100").verified().short(),
        ping("ibv_rc_pingpong", "-c -n 100 -e").verified(),
        ping("ibv_rc_pingpong", "-c -n 50 -s 4099 -m 256").verified(),
        ping("ibv_rc_pingpong", "-c -n 50 -s 4099 -m 512").verified(),
        ping("ibv_rc_pingpong", "-c -n 20 -s 100001 -m 1024").verified().long_messages(),
        ping("ibv_uc_pingpong", "-c -n 100").verified().short(),
        ping("ibv_uc_pingpong", "-c -n 50 -s 2500 -m 256").verified(),
        ping("ibv_ud_pingpong", "-c -n 100 -s 1024").verified().short(),
        ping("ibv_ud_pingpong", "-c -n 100 -s 61 -e").verified(),
        ping("ibv_srq_pingpong", "-c -n 50 -q 4").verified().stragglers().short(),
        ping("ibv_srq_pingpong", "-c -n 50 -q 4 -e").verified().stragglers(),
    ],
};

const PING_PONG_JUMBO: CaseGroup = CaseGroup {
    title: "ibverbs-utils, link with MTU 4200",
    cases: &[
        ping("ibv_rc_pingpong", "-c -n 50 -s 16385 -m 2048").verified().jumbo(),
        ping("ibv_rc_pingpong", "-c -n 20 -s 100001 -m 4096").verified().jumbo().long_messages(),
        ping("ibv_uc_pingpong", "-c -n 50 -s 9000 -m 4096").verified().jumbo(),
        ping("ibv_ud_pingpong", "-c -n 50 -s 4096").verified().jumbo(),
        perf("ib_write_bw", "-n 50 -s 65536").jumbo(),
        perf("ib_read_bw", "-n 50 -s 65536").jumbo(),
    ],
};

const SEND: CaseGroup = CaseGroup {
    title: "perftest: SEND",
    cases: &[
        perf("ib_send_bw", "-n 50 -s 65536").short(),
        perf("ib_send_bw", "-n 100 -s 3000 -m 256"),
        perf("ib_send_bw", "-n 100 -s 64 -I 64"),
        perf("ib_send_bw", "-n 50 -s 4096 -e"),
        perf("ib_send_bw", "-n 50 -s 4096 -b"),
        perf("ib_send_bw", "-n 50 -s 4096 -q 4"),
        perf("ib_send_bw", "-n 20 -c UC -s 1000"),
        perf("ib_send_bw", "-n 50 -c UD -s 1024"),
        perf("ib_send_lat", "-n 50"),
        perf("ib_send_lat", "-n 50 -s 4096"),
        perf("ib_send_lat", "-n 50 -c UC"),
        perf("ib_send_lat", "-n 50 -c UD"),
    ],
};

const WRITE: CaseGroup = CaseGroup {
    title: "perftest: RDMA WRITE",
    cases: &[
        perf("ib_write_bw", "-n 50 -s 65536").short(),
        perf("ib_write_bw", "-n 50 -s 3000 -m 512"),
        perf("ib_write_bw", "-n 50 -s 4096 -b"),
        perf("ib_write_bw", "-n 50 -s 4096 -q 4"),
        perf("ib_write_bw", "-n 20 -c UC -s 1000"),
        perf("ib_write_lat", "-n 50"),
        perf("ib_write_lat", "-n 50 -s 4096"),
        perf("ib_write_lat", "-n 50 -c UC"),
    ],
};

const READ: CaseGroup = CaseGroup {
    title: "perftest: RDMA READ",
    cases: &[
        perf("ib_read_bw", "-n 50 -s 65536").short(),
        perf("ib_read_bw", "-n 5 -s 1000000"),
        perf("ib_read_bw", "-n 50 -s 3000 -m 256"),
        perf("ib_read_bw", "-n 50 -s 4096 -e"),
        perf("ib_read_bw", "-n 50 -s 4096 -b"),
        perf("ib_read_bw", "-n 50 -s 4096 -q 4"),
        perf("ib_read_lat", "-n 50"),
        perf("ib_read_lat", "-n 50 -s 4096"),
    ],
};

const ATOMIC: CaseGroup = CaseGroup {
    title: "perftest: atomics",
    cases: &[
        perf("ib_atomic_bw", "-n 50 -A FETCH_AND_ADD").short(),
        perf("ib_atomic_bw", "-n 50 -A CMP_AND_SWAP"),
        perf("ib_atomic_bw", "-n 50 -b"),
        perf("ib_atomic_lat", "-n 50 -A FETCH_AND_ADD"),
        perf("ib_atomic_lat", "-n 50 -A CMP_AND_SWAP"),
    ],
};

const FAULTS: CaseGroup = CaseGroup {
    title: "While packets are lost, repeated and reordered",
    cases: &[
        ping("ibv_rc_pingpong", "-c -n 100").verified().faults("seed=7,loss=0.02").short(),
        ping("ibv_rc_pingpong", "-c -n 20 -s 100001").verified().faults("seed=8,loss=0.02"),
        ping("ibv_rc_pingpong", "-c -n 50 -s 10000").verified().faults("seed=9,loss=0.02,dup=0.02,reorder=0.02"),
        ping("ibv_srq_pingpong", "-c -n 20 -q 4").verified().faults("seed=10,loss=0.02"),
        perf("ib_send_bw", "-n 20 -s 65536").faults("seed=11,loss=0.01"),
        perf("ib_write_bw", "-n 20 -s 65536").faults("seed=12,loss=0.01"),
        perf("ib_read_bw", "-n 20 -s 65536").faults("seed=13,loss=0.01"),
        perf("ib_atomic_bw", "-n 50 -A FETCH_AND_ADD").faults("seed=14,loss=0.02"),
        perf("ib_atomic_bw", "-n 50 -A CMP_AND_SWAP").faults("seed=15,loss=0.02"),
        ping("ibv_rc_pingpong", "-c -n 50 -s 10000").verified().netem("loss 1%"),
        perf("ib_send_bw", "-n 20 -s 65536").netem("loss 1%"),
        perf("ib_write_bw", "-n 20 -s 65536").netem("loss 1%"),
        perf("ib_read_bw", "-n 20 -s 65536").netem("loss 1%"),
        perf("ib_atomic_bw", "-n 50 -A FETCH_AND_ADD").netem("loss 1%"),
        perf("ib_read_bw", "-n 20 -s 65536").netem("delay 1ms reorder 5% 50%"),
        perf("ib_send_bw", "-n 20 -s 65536").netem("duplicate 5%"),
    ],
};
