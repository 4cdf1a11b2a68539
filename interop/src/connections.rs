//! The cases whose programs connect by the connection manager.

use crate::case::{Case, FAMILIES, IpFamily, Judge, Role};
use crate::ready::Listens;
use crate::tables::CaseGroup;

const fn perf(program: &'static str, options: &'static str) -> Case {
    Case::perf_connects(program, options).listens_late().over(&[IpFamily::V4], "IPv4 only")
}

/// The last of ten messages of rping.
const PINGED: Judge = Judge::Says(&["ping data: rdma-ping-9"]);

/// rping, with options of both sides.
pub(crate) const fn rping(options: &'static str) -> Case {
    Case::connects("rping", options, Judge::Says(&["ping data: rdma-ping-1"]))
        .server("-s -a {own}")
        .client("-c -a {server}")
}

/// rping that compares ten messages.
const fn rping_verified(options: &'static str) -> Case {
    Case { judge: PINGED, ..rping(options) }.verified()
}

/// An example program of librdmacm that prints its result.
pub(crate) const fn example(program: &'static str, options: &'static str) -> Case {
    Case::connects(program, options, Judge::Says(&["test complete", "return status 0"])).server("-b {own}")
}

/// An example program of rsockets.
pub(crate) const fn stream(program: &'static str, options: &'static str) -> Case {
    Case::connects(program, options, Judge::ClientSays(&["Gb/sec"])).server("-b {own}")
}

/// A member of a group and a sender to it.
pub(crate) const fn mckey(options: &'static str, group: &'static str) -> Case {
    Case::connects("mckey", options, Judge::Says(&["data transfers complete", "return status 0"]))
        .server("-b {own}")
        .client("-b {own} -s")
        .listens(Listens::Group(group))
}

pub(crate) const CONNECTIONS: CaseGroup = CaseGroup {
    title: "rdmacm-utils",
    cases: &[
        rping_verified("-v -V -C 10").short(),
        rping_verified("-v -V -C 10 -S 1000"),
        rping_verified("-v -V -C 10 -S 60000"),
        rping_verified("-v -V -C 10 -q"),
        Case { judge: Judge::ClientSays(&["ping data: rdma-ping-9"]), ..rping("-v -V -C 10") }
            .server("-s -P -a {own}")
            .over(&FAMILIES, "server with `-P`")
            .outlives_client()
            .verified(),
        example("ucmatose", "").short(),
        example("ucmatose", "-c 10 -C 5 -S 4096"),
        example("udaddy", "").short(),
        example("udaddy", "-c 3 -C 5 -S 1000"),
        Case::connects("rdma_server", "", Judge::Says(&["end 0"])).server("-s {own}").client_program("rdma_client"),
        Case::connects("cmtime", "-c 20", Judge::ClientSays(&["resolve addr :", "disconnect   :"]))
            .server("-b {own}")
            .outlives_client(),
        Case::connects("rcopy", "", Judge::ClientSays(&["bytes", "seconds"]))
            .client("/bin/bash {server}:copied")
            .outlives_client()
            .over(&[IpFamily::V4], "of a file; IPv4 only"),
        mckey("-m 239.7.7.7", "239.7.7.7").over(&[IpFamily::V4], "rxe joins no IPv6 group").short(),
    ],
};

pub(crate) const STREAMS: CaseGroup = CaseGroup {
    title: "rsockets",
    cases: &[
        stream("rstream", "-I 5 -C 10 -S 1000 -T v").verified().short(),
        stream("rstream", "-I 2 -C 10 -S 100000 -T v").verified(),
        stream("rstream", "-I 5 -C 10 -S 1000 -T b"),
        stream("rstream", "-I 5 -C 10 -S 1000 -T n"),
        stream("rstream", "-I 5 -C 10 -S 1000 -T a")
            .only_as(&[Role::Client], "polling, it takes the end of a faster server for an error, also with rxe alone"),
        stream("rstream", "-I 5 -C 10 -S 1000 -T r"),
        stream("riostream", "-I 5 -C 10 -S 1000 -T v").verified(),
    ],
};

pub(crate) const PERFTEST_CM: CaseGroup = CaseGroup {
    title: "perftest and qperf, connecting by the connection manager",
    cases: &[
        perf("ib_send_bw", "-R -n 50 -s 65536"),
        perf("ib_send_bw", "-R -n 50 -c UD -s 1024"),
        perf("ib_send_lat", "-R -n 50")
            .only_as(&[Role::Server], "IPv4 only; its server listens too late for a fast client"),
        perf("ib_write_bw", "-R -n 50 -s 65536"),
        perf("ib_write_bw", "-R -n 50 -q 4 -s 4096"),
        perf("ib_read_bw", "-R -n 50 -s 65536"),
        perf("ib_atomic_bw", "-R -n 50"),
        Case::connects("qperf", "", Judge::ClientSays(&["rc_lat:", "latency"]))
            .client("{server} -cm 1 -t 1 rc_lat quit")
            .listens_late()
            .listens(Listens::Tcp(19765))
            .over(&[IpFamily::V4], "IPv4 only"),
    ],
};

/// The connection manager repeats a lost message after some seconds.
pub(crate) const CONNECTION_FAULTS: CaseGroup = CaseGroup {
    title: "Connections while packets are lost, repeated and reordered",
    cases: &[
        rping_verified("-v -V -C 10").patience(90).faults("seed=21,loss=0.1"),
        rping_verified("-v -V -C 10 -S 20000").patience(90).faults("seed=22,loss=0.02,dup=0.1,reorder=0.02"),
        rping_verified("-v -V -C 10").patience(90).netem("loss 10%"),
        stream("rstream", "-I 5 -C 10 -S 5000 -T v").verified().patience(90).faults("seed=23,loss=0.05,dup=0.05"),
        stream("rstream", "-I 5 -C 10 -S 5000 -T v").verified().patience(90).netem("loss 5%"),
        example("ucmatose", "-c 5").patience(90).netem("duplicate 30%"),
    ],
};
