//! The programs of Debian 12 that must run, with the options they are run with.

use crate::case::{Case, Judge};

/// A family of programs: one package, or one part of it.
pub(crate) struct Family {
    pub(crate) title: &'static str,
    pub(crate) cases: &'static [Case],
}

const fn ping(program: &'static str, options: &'static str) -> Case {
    Case::pair(program, options, Judge::Says(&["client│", " bytes in ", "usec/iter"]))
}

const fn perf(program: &'static str, options: &'static str) -> Case {
    Case::pair(program, options, Judge::Rows(1))
}

/// All sizes from 2 B to 8 MiB.
const fn sizes(program: &'static str, options: &'static str) -> Case {
    Case::pair(program, options, Judge::Rows(23))
}

pub(crate) const DEVICES: Family = Family {
    title: "ibverbs-utils: devices",
    cases: &[
        Case::alone("ibv_devices", "", &["la_lo"]),
        Case::alone("ibv_devinfo", "", &["la_lo", "PORT_ACTIVE", "Ethernet"]),
        Case::alone("ibv_devinfo", "-v", &["::ffff:127.0.0.1, RoCE v2", "max_qp_wr", "atomic_cap"]),
        Case::alone("ibv_asyncwatch", "", &["la_lo"]).lives(),
    ],
};

pub(crate) const PING_PONG_V4: Family = Family {
    title: "ibverbs-utils: ping-pong, IPv4",
    cases: &[
        ping("ibv_rc_pingpong", "-g 0 -c").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -e").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -o").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -O").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -o -P").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -t").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -N").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -j").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -m 4096 -s 1000000 -n 100").verified(),
        ping("ibv_uc_pingpong", "-g 0 -c").verified(),
        ping("ibv_uc_pingpong", "-g 0 -c -e").verified(),
        ping("ibv_ud_pingpong", "-g 0 -c").verified(),
        ping("ibv_ud_pingpong", "-g 0 -c -e").verified(),
        ping("ibv_srq_pingpong", "-g 0 -c").verified(),
        ping("ibv_srq_pingpong", "-g 0 -c -e").verified(),
        ping("ibv_srq_pingpong", "-g 0 -c -o -n 100").verified(),
        XSRQ,
    ],
};

pub(crate) const PING_PONG_V6: Family = Family {
    title: "ibverbs-utils: ping-pong, IPv6",
    cases: &[
        ping("ibv_rc_pingpong", "-g 1 -c").verified(),
        ping("ibv_uc_pingpong", "-g 1 -c").verified(),
        ping("ibv_ud_pingpong", "-g 1 -c").verified(),
        ping("ibv_srq_pingpong", "-g 1 -c").verified(),
        Case { options: "-g 1", ..XSRQ },
    ],
};

const XSRQ: Case = Case::pair("ibv_xsrq_pingpong", "-g 0", Judge::Says(&["client│ "]));

pub(crate) const SEND: Family = Family {
    title: "perftest: SEND",
    cases: &[
        perf("ib_send_bw", "-n 500"),
        perf("ib_send_bw", "-n 200 -c UC -s 4096"),
        perf("ib_send_bw", "-n 500 -c UD -s 1024"),
        perf("ib_send_bw", "-n 500 -c XRC"),
        perf("ib_send_lat", "-n 500"),
        perf("ib_send_lat", "-n 500 -c UC"),
        perf("ib_send_lat", "-n 500 -c UD"),
        perf("ib_send_lat", "-n 500 -c XRC"),
        perf("ib_send_bw", "-n 500 -b"),
        perf("ib_send_bw", "-n 500 -e"),
        perf("ib_send_lat", "-n 500 -e"),
        perf("ib_send_bw", "-n 500 --use-srq"),
        perf("ib_send_lat", "-n 500 --use-srq"),
        perf("ib_send_bw", "-n 800 -l 8"),
        perf("ib_send_bw", "-n 500 -I 64 -s 64"),
        perf("ib_send_lat", "-n 500 -I 64 -s 64"),
        perf("ib_send_bw", "-n 100 -q 64 -s 4096"),
        perf("ib_send_bw", "-D 1"),
        perf("ib_send_bw", "-n 500 --use_old_post_send"),
        perf("ib_send_bw", "-n 500 -x 1"),
        perf("ib_send_lat", "-n 500 -x 1"),
        sizes("ib_send_bw", "-a -n 5"),
        sizes("ib_send_lat", "-a -n 5"),
    ],
};

pub(crate) const WRITE: Family = Family {
    title: "perftest: WRITE",
    cases: &[
        perf("ib_write_bw", "-n 500"),
        perf("ib_write_bw", "-n 500 -c UC"),
        perf("ib_write_bw", "-n 500 -c XRC"),
        perf("ib_write_lat", "-n 500"),
        perf("ib_write_lat", "-n 500 -c UC"),
        perf("ib_write_lat", "-n 500 -c XRC"),
        perf("ib_write_bw", "-n 500 -b"),
        perf("ib_write_bw", "-n 800 -l 8"),
        perf("ib_write_bw", "-n 500 -I 64 -s 64"),
        perf("ib_write_lat", "-n 500 -I 64 -s 64"),
        perf("ib_write_bw", "-n 100 -q 64 -s 4096"),
        perf("ib_write_bw", "-D 1"),
        perf("ib_write_bw", "-n 500 --odp"),
        perf("ib_write_bw", "-n 500 --mr_per_qp -q 4"),
        perf("ib_write_bw", "-n 500 -x 1"),
        perf("ib_write_lat", "-n 500 -x 1"),
        sizes("ib_write_bw", "-a -n 5"),
        sizes("ib_write_lat", "-a -n 5"),
    ],
};

pub(crate) const READ: Family = Family {
    title: "perftest: READ",
    cases: &[
        perf("ib_read_bw", "-n 500"),
        perf("ib_read_bw", "-n 500 -c XRC"),
        perf("ib_read_lat", "-n 500"),
        perf("ib_read_lat", "-n 500 -c XRC"),
        perf("ib_read_bw", "-n 500 -b"),
        perf("ib_read_bw", "-n 500 -e"),
        perf("ib_read_lat", "-n 500 -e"),
        perf("ib_read_bw", "-n 100 -q 64 -s 4096"),
        perf("ib_read_bw", "-D 1"),
        perf("ib_read_bw", "-n 500 -x 1"),
        sizes("ib_read_bw", "-a -n 5"),
        sizes("ib_read_lat", "-a -n 5"),
    ],
};

pub(crate) const ATOMIC: Family = Family {
    title: "perftest: atomics",
    cases: &[
        perf("ib_atomic_bw", "-n 500"),
        perf("ib_atomic_bw", "-n 500 -A CMP_AND_SWAP"),
        perf("ib_atomic_bw", "-n 500 -c XRC"),
        perf("ib_atomic_lat", "-n 500"),
        perf("ib_atomic_lat", "-n 500 -A CMP_AND_SWAP"),
        perf("ib_atomic_lat", "-n 500 -c XRC"),
        perf("ib_atomic_bw", "-n 500 -b"),
        perf("ib_atomic_bw", "-n 500 -e"),
        perf("ib_atomic_bw", "-n 100 -q 64"),
        perf("ib_atomic_bw", "-D 1"),
        perf("ib_atomic_lat", "-n 500 -x 1"),
    ],
};

pub(crate) const TWO_HOSTS: Family = Family {
    title: "Two hosts, a wire with MTU 1500",
    cases: &[
        ping("ibv_rc_pingpong", "-g 0 -c").verified().two_hosts(),
        ping("ibv_ud_pingpong", "-g 0 -c -s 1024").verified().two_hosts(),
        perf("ib_send_bw", "-n 500").two_hosts(),
        perf("ib_send_lat", "-n 500 -c UD").two_hosts(),
        perf("ib_write_bw", "-n 500").two_hosts(),
        perf("ib_write_lat", "-n 500 -c UC").two_hosts(),
        perf("ib_read_bw", "-n 500").two_hosts(),
        perf("ib_atomic_lat", "-n 500").two_hosts(),
        sizes("ib_write_bw", "-a -n 5").two_hosts(),
    ],
};

pub(crate) const FAULTS: Family = Family {
    title: "While packets are lost, repeated and reordered",
    cases: &[
        ping("ibv_rc_pingpong", "-g 0 -c").verified().faults("seed=7,loss=0.02"),
        ping("ibv_srq_pingpong", "-g 0 -c -q 4 -n 200").verified().faults("seed=8,loss=0.02,dup=0.02"),
        perf("ib_write_bw", "-n 500").faults("seed=9,loss=0.02,reorder=0.02"),
        perf("ib_read_bw", "-n 500").faults("seed=10,loss=0.02"),
    ],
};

const fn qperf(client: &'static str, says: &'static [&'static str]) -> Case {
    Case::pair("qperf", "", Judge::Says(says)).client(client)
}

pub(crate) const QPERF: Family = Family {
    title: "qperf",
    cases: &[
        qperf(
            "{server} -t 1 rc_lat rc_bw rc_bi_bw rc_rdma_read_lat rc_rdma_read_bw quit",
            &["rc_lat:", "rc_bw:", "rc_bi_bw:", "rc_rdma_read_lat:", "rc_rdma_read_bw:", "latency", "bw  "],
        ),
        qperf(
            "{server} -t 1 rc_rdma_write_lat rc_rdma_write_bw rc_rdma_write_poll_lat quit",
            &["rc_rdma_write_lat:", "rc_rdma_write_bw:", "rc_rdma_write_poll_lat:", "latency", "bw  "],
        ),
        qperf(
            "{server} -t 1 rc_compare_swap_mr rc_fetch_add_mr quit",
            &["rc_compare_swap_mr:", "rc_fetch_add_mr:", "msg_rate"],
        ),
        qperf(
            "{server} -t 1 ver_rc_compare_swap ver_rc_fetch_add quit",
            &["ver_rc_compare_swap:", "ver_rc_fetch_add:", "msg_rate"],
        )
        .verified(),
        qperf(
            "{server} -t 1 uc_lat uc_bw uc_bi_bw uc_rdma_write_lat uc_rdma_write_bw uc_rdma_write_poll_lat quit",
            &["uc_lat:", "uc_bw:", "uc_bi_bw:", "uc_rdma_write_lat:", "uc_rdma_write_bw:", "uc_rdma_write_poll_lat:"],
        ),
        qperf("{server} -t 1 ud_lat ud_bw ud_bi_bw quit", &["ud_lat:", "ud_bw:", "ud_bi_bw:", "latency", "bw  "]),
    ],
};

const RC: &str = "UCX_TLS=rc_v,self UCX_NET_DEVICES=la_lo:1";
const UD: &str = "UCX_TLS=ud_v,self UCX_NET_DEVICES=la_lo:1";

const fn ucx(environment: &'static str, options: &'static str) -> Case {
    Case::pair("ucx_perftest", options, Judge::Rows(1)).environment(environment)
}

pub(crate) const UCX: Family = Family {
    title: "UCX",
    cases: &[
        Case::alone("ucx_info", "-d", &["rc_verbs", "ud_verbs", "Device: la_lo:1"]),
        ucx(RC, "-f -n 500 -w 10 -s 1024 -t tag_lat"),
        ucx(RC, "-f -n 500 -w 10 -s 1024 -t tag_lat -E sleep"),
        ucx(RC, "-f -n 500 -w 10 -s 65536 -t tag_bw"),
        ucx(RC, "-f -n 50 -w 5 -s 4000000 -t tag_bw"),
        ucx(RC, "-f -n 500 -w 10 -s 1024 -t stream_lat"),
        ucx(RC, "-f -n 500 -w 10 -s 1024 -t stream_bw"),
        ucx(RC, "-f -n 500 -w 10 -s 1024 -t ucp_am_lat"),
        ucx(RC, "-f -n 500 -w 10 -s 1024 -t ucp_put_lat"),
        ucx(RC, "-f -n 500 -w 10 -s 65536 -t ucp_put_bw"),
        ucx(RC, "-f -n 500 -w 10 -s 65536 -t ucp_get"),
        ucx(RC, "-f -n 500 -w 10 -s 8 -t ucp_add"),
        ucx(RC, "-f -n 500 -w 10 -s 8 -t ucp_fadd"),
        ucx(RC, "-f -n 500 -w 10 -s 8 -t ucp_swap"),
        ucx(RC, "-f -n 500 -w 10 -s 8 -t ucp_cswap"),
        ucx(UD, "-f -n 500 -w 10 -s 1024 -t tag_lat"),
        ucx(UD, "-f -n 500 -w 10 -s 65536 -t tag_bw"),
        ucx(UD, "-f -n 500 -w 10 -s 1024 -t stream_lat"),
        ucx(UD, "-f -n 500 -w 10 -s 1024 -t ucp_put_lat"),
        ucx(UD, "-f -n 500 -w 10 -s 65536 -t ucp_get"),
    ],
};

const fn mpi(environment: &'static str, options: &'static str) -> Case {
    Case::alone("mpirun", options, &["all verified"]).environment(environment).verified()
}

pub(crate) const MPI: Family = Family {
    title: "OpenMPI over UCX: a ring, sums, messages of 4 MiB, a window",
    cases: &[
        mpi(RC, "--allow-run-as-root --oversubscribe -n 2 --mca pml ucx --mca osc ucx --mca btl ^openib,uct ./mpi"),
        mpi(RC, "--allow-run-as-root --oversubscribe -n 4 --mca pml ucx --mca osc ucx --mca btl ^openib,uct ./mpi"),
        mpi(UD, "--allow-run-as-root --oversubscribe -n 2 --mca pml ucx --mca osc ucx --mca btl ^openib,uct ./mpi"),
    ],
};

/// All, as the document shows them.
pub(crate) const FAMILIES: [&Family; 12] =
    [&DEVICES, &PING_PONG_V4, &PING_PONG_V6, &SEND, &WRITE, &READ, &ATOMIC, &QPERF, &UCX, &MPI, &TWO_HOSTS, &FAULTS];
