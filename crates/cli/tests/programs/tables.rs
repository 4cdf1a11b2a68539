//! The programs of Debian 12 that must run, with their options.

use crate::case::{Case, Judge};
use crate::storage::{ISER, QEMU, RPMA};

/// A family of programs: one package, or a part of one.
pub(crate) struct ProgramFamily {
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

pub(crate) const DEVICES: ProgramFamily = ProgramFamily {
    title: "ibverbs-utils: devices",
    cases: &[
        Case::alone("ibv_devices", "", &["la_lo"]),
        Case::alone("ibv_devinfo", "", &["la_lo", "PORT_ACTIVE", "Ethernet"]),
        Case::alone("ibv_devinfo", "-v", &["::ffff:127.0.0.1, RoCE v2", "max_qp_wr", "atomic_cap"]),
        Case::alone("ibv_asyncwatch", "", &["la_lo"]).lives(),
    ],
};

pub(crate) const PING_PONG_V4: ProgramFamily = ProgramFamily {
    title: "ibverbs-utils: ping-pong, IPv4",
    cases: &[
        ping("ibv_rc_pingpong", "-g 0 -c").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -e").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -o").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -O").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -o -P").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -t").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -e -t").verified(),
        ping("ibv_rc_pingpong", "-g 0 -c -e -t").verified().environment("LONGARM_LOCAL=off"),
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

pub(crate) const PING_PONG_V6: ProgramFamily = ProgramFamily {
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

pub(crate) const SEND: ProgramFamily = ProgramFamily {
    title: "perftest: SEND",
    cases: &[
        perf("ib_send_bw", "-n 500"),
        perf("ib_send_bw", "-n 500 -c UC"),
        perf("ib_send_bw", "-n 500 -c UD"),
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

pub(crate) const WRITE: ProgramFamily = ProgramFamily {
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

pub(crate) const READ: ProgramFamily = ProgramFamily {
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

pub(crate) const ATOMIC: ProgramFamily = ProgramFamily {
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

/// libfabric uses no loop-back interface for connections.
const fn libfabric(options: &'static str) -> Case {
    says("fi_pingpong", options, &["client│ 1k ", "server│ 1k "]).verified()
}

pub(crate) const TWO_HOSTS: ProgramFamily = ProgramFamily {
    title: "Two hosts, a wire with MTU 1500",
    cases: &[
        ping("ibv_rc_pingpong", "-g 0 -c").verified().two_hosts(),
        ping("ibv_rc_pingpong", "-g 0 -c -m 4096 -s 100000 -n 100").verified().two_hosts(),
        ping("ibv_uc_pingpong", "-g 0 -c -m 4096").verified().two_hosts(),
        ping("ibv_ud_pingpong", "-g 0 -c -s 1024").verified().two_hosts(),
        rping("-s", "-c -V -a {server}").two_hosts(),
        example("udaddy", "").two_hosts(),
        says("mckey", "-m 239.1.2.3", MEMBERS).server("-b 192.0.2.1").client("-b 192.0.2.2 -s").two_hosts().silent(),
        Case::commands("'sleep 3'", "'fi_info -p verbs; : {server}'", Judge::Says(&["domain: la_wire0", "FI_EP_MSG"]))
            .silent()
            .named("fi_info -p verbs")
            .two_hosts(),
        libfabric("-p verbs -e msg -I 50 -c").two_hosts(),
        libfabric("-p verbs -e rdm -I 50 -c").two_hosts(),
        libfabric("-p verbs -e dgram -I 50 -c").two_hosts(),
        perf("ib_send_bw", "-n 500").two_hosts(),
        perf("ib_send_lat", "-n 500 -c UD").two_hosts(),
        perf("ib_write_bw", "-n 500").two_hosts(),
        perf("ib_write_lat", "-n 500 -c UC").two_hosts(),
        perf("ib_read_bw", "-n 500").two_hosts(),
        perf("ib_atomic_lat", "-n 500").two_hosts(),
        sizes("ib_write_bw", "-a -n 5").two_hosts(),
    ],
};

pub(crate) const FAULTS: ProgramFamily = ProgramFamily {
    title: "While packets are lost, repeated and reordered",
    cases: &[
        ping("ibv_rc_pingpong", "-g 0 -c").verified().faults("seed=7,loss=0.02"),
        ping("ibv_srq_pingpong", "-g 0 -c -q 4 -n 200").verified().faults("seed=8,loss=0.02,dup=0.02"),
        perf("ib_write_bw", "-n 500").faults("seed=9,loss=0.02,reorder=0.02"),
        perf("ib_read_bw", "-n 500").faults("seed=10,loss=0.02"),
        rping("-s", "-c -V -a {server}").faults("seed=11,loss=0.02,dup=0.02"),
    ],
};

/// A program of two sides whose output contains these texts.
const fn says(program: &'static str, options: &'static str, words: &'static [&'static str]) -> Case {
    Case::pair(program, options, Judge::Says(words))
}

const fn rping(server: &'static str, client: &'static str) -> Case {
    says("rping", "-v -C 10", &["server ping data: rdma-ping-9", "client│ ping data: rdma-ping-9"])
        .server(server)
        .client(client)
        .verified()
}

/// An example program of librdmacm that prints its result.
const fn example(program: &'static str, options: &'static str) -> Case {
    says(program, options, &["client│ test complete", "client│ return status 0"]).client("-s {server}")
}

pub(crate) const CONNECTIONS: ProgramFamily = ProgramFamily {
    title: "rdmacm-utils",
    cases: &[
        rping("-s", "-c -V -a {server}"),
        rping("-s -a ::1", "-c -V -a ::1"),
        rping("-s -S 60000", "-c -V -S 60000 -a {server}"),
        rping("-s -q", "-c -V -q -a {server}"),
        says("rping", "-v -C 10", &["client│ ping data: rdma-ping-9"])
            .server("-s -P")
            .client("-c -V -a {server}")
            .serves()
            .verified(),
        Case::commands(MANY_SERVERS, MANY_CLIENTS, Judge::Says(&["server│ all ended well", "client│ all ended well"]))
            .named("rping, eight at once")
            .verified(),
        example("ucmatose", ""),
        example("ucmatose", "-c 20 -C 20 -S 4096"),
        example("udaddy", ""),
        example("udaddy", "-c 5 -C 20 -S 1000"),
        says("mckey", "-m 239.1.2.3", MEMBERS).server("-b 127.0.0.1").client("-b {server} -s").silent(),
        // Without a network the multicast group is on this host.
        says("mckey", "-m 239.1.2.5", MEMBERS).client("-s {server}").silent(),
        says("mckey", "-m 239.1.2.3 -p 0x0002", MEMBERS).server("-b 127.0.0.1").client("-b {server} -s").silent(),
        says("mckey", "-m 239.1.2.3 -l", MEMBERS).server("-b 127.0.0.1").client("-b {server} -s").silent(),
        says("mckey", "-m 239.1.2.4 -c 3 -C 4", MEMBERS).server("-b 127.0.0.1").client("-b {server} -s -o").silent(),
        Case::commands("rdma_server", "'rdma_client -s {server}'", ENDS).named("rdma_client"),
        Case::commands("rdma_xserver", "'rdma_xclient -s {server}'", ENDS).named("rdma_xclient"),
        Case::commands("'rdma_xserver -c x'", "'rdma_xclient -s {server} -c x'", ENDS).named("rdma_xclient"),
        says("cmtime", "-c 100", &["resolve addr :", "disconnect   :"]).client("-s {server}").serves(),
    ],
};

/// One rping server for several clients mixes up simultaneous requests, so each client has its own server.
const MANY_SERVERS: &str = "'for i in 1 2 3 4 5 6 7 8; do rping -s -V -C 50 -p 720$i & all=\"$all $!\"; done; \
    for one in $all; do wait $one || exit 1; done; echo all ended well'";
const MANY_CLIENTS: &str = "'sleep 1; for i in 1 2 3 4 5 6 7 8; do rping -c -V -C 50 -p 720$i -a {server} & \
    all=\"$all $!\"; done; for one in $all; do wait $one || exit 1; done; echo all ended well'";

const MEMBERS: &[&str] = &["server│ data transfers complete", "client│ data transfers complete"];
const ENDS: Judge = Judge::Says(&["server: end 0", "client: end 0"]);

/// An rsocket program whose two sides both print their result.
const fn rsocket(program: &'static str, options: &'static str) -> Case {
    says(program, options, &["server│ custom ", "client│ custom "]).client("-s {server}")
}

/// A server that does not end by itself; the client makes a file to end it.
const UDPONG: &str = "'rm -f udpong; udpong -b 127.0.0.1 & until [ -e udpong ]; do sleep 0.1; done; kill $!'";
const RCOPY: &str = "'rm -f rcopy; rcopy & until [ -e rcopy ]; do sleep 0.1; done; kill $!'";

const fn udpong(client: &'static str) -> Case {
    Case::commands(UDPONG, client, Judge::Says(&["client│ custom ", "client│ end 0"])).named("udpong").silent()
}

/// `iperf3` with librspreload before it.
const fn iperf3(client: &'static str) -> Case {
    const SERVER: &str = "'LD_PRELOAD=$(ls /usr/lib/*/rsocket/librspreload.so.1) iperf3 -s -1'";
    Case::commands(SERVER, client, Judge::Says(&["client│ iperf Done.", "receiver"])).named("iperf3")
}

/// A file over HTTPS, with librspreload before both sides; the client ends the server.
const fn https(client: &'static str) -> Case {
    const SERVER: &str = "'rm -f fetched; cp /usr/bin/curl page; openssl req -x509 -newkey rsa:2048 -nodes -days 2 \
                          -subj /CN=server -keyout key.pem -out cert.pem 2>/dev/null; \
                          LD_PRELOAD=$(ls /usr/lib/*/rsocket/librspreload.so.1) openssl s_server -WWW -4 -quiet \
                          -accept 4433 -key key.pem -cert cert.pem & \
                          until [ -e fetched ]; do sleep 0.1; done; kill $!'";
    Case::commands(SERVER, client, Judge::Says(&["client│ end 0"])).named("curl")
}

pub(crate) const RSOCKETS: ProgramFamily = ProgramFamily {
    title: "rsockets: rdmacm-utils, and programs for sockets with librspreload",
    cases: &[
        says("rstream", "", &["client│ 64_lat ", "client│ 1m_bw ", "server│ 1m_bw "]).client("-s {server}"),
        rsocket("rstream", "-S 64 -C 1 -I 1000 -T v").verified(),
        rsocket("rstream", "-S 5000 -C 20 -I 50 -T b -T v").verified(),
        rsocket("rstream", "-S 5000 -C 20 -I 50 -T n -T v").verified(),
        rsocket("rstream", "-S 5000 -C 20 -I 50 -T a -T v").verified(),
        rsocket("rstream", "-S 5000 -C 20 -I 50 -T f -T v").verified(),
        rsocket("rstream", "-S 5000 -C 20 -I 50 -T r -T v").verified(),
        rsocket("rstream", "-S 1000000 -C 4 -I 2 -B 65536 -T v").verified(),
        rsocket("rstream", "-S 1000 -C 50 -I 20 -i 0 -T v").verified(),
        rsocket("rstream", "-S 64 -C 10 -I 10 -k 1 -T v").verified(),
        rsocket("rstream", "-S 100000 -C 10 -I 4 -T v").server("-b ::1").client("-s ::1").verified(),
        rsocket("rstream", "-S 100000 -C 10 -I 4 -T v").verified().two_hosts(),
        rsocket("rstream", "-S 100000 -C 10 -I 4 -T v").verified().faults("seed=12,loss=0.01,dup=0.01"),
        rsocket("riostream", "-S 64 -C 1 -I 100 -T v").verified(),
        rsocket("riostream", "-S 5000 -C 10 -I 10 -T b -T v").verified(),
        rsocket("riostream", "-S 5000 -C 10 -I 10 -T a -T v").verified(),
        rsocket("riostream", "-S 1000000 -C 3 -I 3 -T v").verified(),
        udpong("'udpong -s {server} -S 64 -C 500 -T e; echo end $?; touch udpong'"),
        udpong("'udpong -s {server} -S 1000 -C 500 -T b; echo end $?; touch udpong'"),
        udpong("'udpong -s {server} -S 1500 -C 500 -T a; echo end $?; touch udpong'"),
        Case::commands(
            RCOPY,
            "'rcopy /usr/bin/rcopy {server}:copy && cmp copy /usr/bin/rcopy; echo end $?; touch rcopy'",
            Judge::Says(&["client│ end 0"]),
        )
        .named("rcopy"),
        iperf3("'LD_PRELOAD=$(ls /usr/lib/*/rsocket/librspreload.so.1) iperf3 -c {server} -t 1'"),
        iperf3("'LD_PRELOAD=$(ls /usr/lib/*/rsocket/librspreload.so.1) iperf3 -c {server} -t 1 -P 4 -R'"),
        https(
            "'until [ -e cert.pem ]; do sleep 0.1; done; sleep 1; LD_PRELOAD=$(ls /usr/lib/*/rsocket/librspreload.so.1) \
             curl -sSk -o copy https://{server}:4433/page && cmp copy page; echo end $?; touch fetched'",
        )
        .verified(),
    ],
};

pub(crate) const PERFTEST_CM: ProgramFamily = ProgramFamily {
    title: "perftest: connections by the connection manager",
    cases: &[
        perf("ib_send_bw", "-R -n 500"),
        perf("ib_send_lat", "-R -n 500"),
        perf("ib_send_bw", "-R -n 500 -c UD -s 1024"),
        perf("ib_send_lat", "-R -n 500 -c UD"),
        perf("ib_write_bw", "-R -n 500"),
        perf("ib_write_bw", "-R -n 100 -q 16 -s 4096"),
        perf("ib_write_lat", "-R -n 500"),
        perf("ib_read_bw", "-R -n 500"),
        perf("ib_read_lat", "-R -n 500 -e"),
        perf("ib_atomic_bw", "-R -n 500"),
        perf("ib_atomic_lat", "-R -n 500"),
    ],
};

const fn fio(client: &'static str) -> Case {
    const ENDS: &[&str] = &["server│ s: (groupid=0, jobs=1): err= 0", "client│ c: (groupid=0, jobs=1): err= 0"];
    says("fio", "--ioengine=rdma --port=4444 --bs=64k --size=4m --iodepth=4", ENDS)
        .server("--name=s --rw=read")
        .client(client)
}

pub(crate) const FIO: ProgramFamily = ProgramFamily {
    title: "fio: the rdma engine",
    cases: &[
        fio("--name=c --rw=write --verb=write --hostname={server}"),
        fio("--name=c --rw=write --verb=read --hostname={server}"),
        // fio does not retry when the receiver has no buffer, so the receiver must be well ahead.
        fio("--name=c --rw=write --verb=send --iodepth=1 --hostname={server}")
            .server("--name=s --rw=read --iodepth=64"),
    ],
};

const fn qperf(client: &'static str, says: &'static [&'static str]) -> Case {
    Case::pair("qperf", "", Judge::Says(says)).client(client)
}

const MEMCHECK_ENDS: &[&str] = &["server│ 100 iters in", "client│ 100 iters in"];

pub(crate) const VALGRIND: ProgramFamily = ProgramFamily {
    title: "valgrind, whose memcheck finds nothing",
    cases: &[
        says("valgrind", "-q --error-exitcode=9 ibv_rc_pingpong -c -n 100", MEMCHECK_ENDS).verified(),
        says("valgrind", "-q --error-exitcode=9 ibv_rc_pingpong -c -n 100", MEMCHECK_ENDS)
            .environment("LONGARM_LOCAL=off")
            .verified(),
        says("valgrind", "-q --error-exitcode=9 ibv_srq_pingpong -n 100", MEMCHECK_ENDS),
    ],
};

pub(crate) const QPERF: ProgramFamily = ProgramFamily {
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
        qperf(
            "{server} -cm 1 -t 1 rc_lat rc_bw rc_rdma_write_bw rc_rdma_read_lat quit",
            &["rc_lat:", "rc_bw:", "rc_rdma_write_bw:", "rc_rdma_read_lat:", "latency", "bw  "],
        ),
        qperf("{server} -cm 1 -t 1 ud_lat ud_bw quit", &["ud_lat:", "ud_bw:", "latency", "bw  "]),
    ],
};

const RC: &str = "UCX_TLS=rc_v,self UCX_NET_DEVICES=la_lo:1";
const UD: &str = "UCX_TLS=ud_v,self UCX_NET_DEVICES=la_lo:1";

const fn ucx(environment: &'static str, options: &'static str) -> Case {
    Case::pair("ucx_perftest", options, Judge::Rows(1)).environment(environment)
}

const RC_CM: &str = "UCX_TLS=rc_v,self UCX_NET_DEVICES=la_lo:1 UCX_SOCKADDR_TLS_PRIORITY=rdmacm";
const UD_CM: &str = "UCX_TLS=ud_v,self UCX_NET_DEVICES=la_lo:1 UCX_SOCKADDR_TLS_PRIORITY=rdmacm";

/// Client and server connect by the connection manager.
const fn io_demo(environment: &'static str, options: &'static str) -> Case {
    let case = Case::pair("io_demo", options, Judge::Says(&["Client exit with status 'OK'"]));
    case.client("-i 200 {server}").environment(environment).serves().verified()
}

pub(crate) const UCX: ProgramFamily = ProgramFamily {
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
        io_demo(RC_CM, "-p 13337 -q -o read,write -d 1024:1000000"),
        io_demo(RC_CM, "-p 13337 -q -A -o read,write -d 1024:200000"),
        io_demo(UD_CM, "-p 13337 -q -o read,write -d 1024:1000000"),
    ],
};

const fn mpi(environment: &'static str, options: &'static str) -> Case {
    Case::alone("mpirun", options, &["all verified"]).environment(environment).verified()
}

pub(crate) const MPI: ProgramFamily = ProgramFamily {
    title: "OpenMPI over UCX: a ring, sums, messages of 4 MiB, a window",
    cases: &[
        mpi(RC, "--allow-run-as-root --oversubscribe -n 2 --mca pml ucx --mca osc ucx --mca btl ^openib,uct ./mpi"),
        mpi(RC, "--allow-run-as-root --oversubscribe -n 4 --mca pml ucx --mca osc ucx --mca btl ^openib,uct ./mpi"),
        mpi(UD, "--allow-run-as-root --oversubscribe -n 2 --mca pml ucx --mca osc ucx --mca btl ^openib,uct ./mpi"),
    ],
};

const fn mpich(environment: &'static str, options: &'static str) -> Case {
    Case::alone("mpirun.mpich", options, &["all verified"]).environment(environment).verified()
}

pub(crate) const MPICH: ProgramFamily = ProgramFamily {
    title: "MPICH over UCX: a ring, sums, messages of 4 MiB",
    cases: &[mpich(RC, "-n 2 ./mpich 3"), mpich(RC, "-n 4 ./mpich 3"), mpich(UD, "-n 2 ./mpich 3")],
};

/// All families, in the order of the document.
pub(crate) const FAMILIES: [&ProgramFamily; 21] = [
    &DEVICES,
    &PING_PONG_V4,
    &PING_PONG_V6,
    &SEND,
    &WRITE,
    &READ,
    &ATOMIC,
    &CONNECTIONS,
    &RSOCKETS,
    &PERFTEST_CM,
    &QPERF,
    &VALGRIND,
    &FIO,
    &UCX,
    &MPI,
    &MPICH,
    &QEMU,
    &ISER,
    &RPMA,
    &TWO_HOSTS,
    &FAULTS,
];
