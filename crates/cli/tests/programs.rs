//! Unmodified programs of Debian's packages on this device: `cargo xtask packages` installs them.
//! What is run, and how success is judged, is a table; `docs/programs.md` is written from it.

mod support;

#[path = "programs/case.rs"]
mod case;
#[path = "programs/document.rs"]
mod document;
#[path = "programs/group.rs"]
mod group;
#[path = "programs/run.rs"]
mod run;
#[path = "pyverbs/skips.rs"]
mod skips;
#[path = "programs/tables.rs"]
mod tables;

use std::process::Command;

use support::{Hosts, must_succeed};

macro_rules! families {
    ($($test:ident: $family:ident;)+) => {
        $(
            #[test]
            fn $test() {
                let hosts = Hosts::one(concat!("programs-", stringify!($test)));
                run::all(&hosts, tables::$family.cases);
            }
        )+
    };
}

families! {
    devices: DEVICES;
    ping_pong_v4: PING_PONG_V4;
    ping_pong_v6: PING_PONG_V6;
    send: SEND;
    write: WRITE;
    read: READ;
    atomic: ATOMIC;
    connections: CONNECTIONS;
    rsockets: RSOCKETS;
    perftest_cm: PERFTEST_CM;
    qperf: QPERF;
    fio: FIO;
    valgrind: VALGRIND;
    ucx: UCX;
    two_hosts: TWO_HOSTS;
    faults: FAULTS;
}

#[test]
fn mpi() {
    let hosts = Hosts::one("programs-mpi");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/mpi.c");
    must_succeed(Command::new("mpicc").args(["-O2", "-Wall", "-Werror", source, "-o"]).arg(hosts.dir.join("mpi")));
    run::all(&hosts, tables::MPI.cases);
}

#[test]
fn the_document_tells_what_is_tested() {
    document::check();
}
