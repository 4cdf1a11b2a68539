//! Unmodified programs of Debian's packages on Longarm; `cargo xtask packages` installs them.
//! A table lists the programs and their criteria of success; `docs/programs.md` is generated from it.

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
#[path = "programs/storage.rs"]
mod storage;
#[path = "programs/tables.rs"]
mod tables;

use std::process::Command;

use support::Hosts;
use testkit::must_succeed;

macro_rules! families {
    ($($test:ident: $family:path;)+) => {
        $(
            #[test]
            fn $test() {
                let hosts = Hosts::one(concat!("programs-", stringify!($test)));
                run::all(&hosts, $family.cases);
            }
        )+
    };
}

families! {
    devices: tables::DEVICES;
    ping_pong_v4: tables::PING_PONG_V4;
    ping_pong_v6: tables::PING_PONG_V6;
    send: tables::SEND;
    write: tables::WRITE;
    read: tables::READ;
    atomic: tables::ATOMIC;
    connections: tables::CONNECTIONS;
    rsockets: tables::RSOCKETS;
    perftest_cm: tables::PERFTEST_CM;
    qperf: tables::QPERF;
    fio: tables::FIO;
    valgrind: tables::VALGRIND;
    ucx: tables::UCX;
    two_hosts: tables::TWO_HOSTS;
    qemu: storage::QEMU;
    iser: storage::ISER;
    faults: tables::FAULTS;
}

#[test]
fn mpi() {
    let hosts = Hosts::one("programs-mpi");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/mpi.c");
    must_succeed(Command::new("mpicc").args(["-O2", "-Wall", "-Werror", source, "-o"]).arg(hosts.dir().join("mpi")));
    run::all(&hosts, tables::MPI.cases);
}

#[test]
fn mpich() {
    let hosts = Hosts::one("programs-mpich");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/mpi.c");
    must_succeed(
        Command::new("mpicc.mpich").args(["-O2", "-Wall", "-Werror", source, "-o"]).arg(hosts.dir().join("mpich")),
    );
    run::all(&hosts, tables::MPICH.cases);
}

#[test]
fn librpma() {
    let hosts = Hosts::one("programs-librpma");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/rpma.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Werror", source, "-lrpma", "-o"]).arg(hosts.dir().join("rpma"));
    must_succeed(&mut compiler);
    run::all(&hosts, storage::RPMA.cases);
}

#[test]
fn the_document_tells_what_is_tested() {
    document::check();
}
