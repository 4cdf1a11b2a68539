//! Longarm's development tasks. `cargo xtask` lists them.
#![forbid(unsafe_code)]

mod build;
mod compare;
mod examples;
mod fuzz;
mod guard;
mod interop;
mod kv;
mod kv_wheel;
mod layers;
mod package;
mod packages;
mod programs;
mod prose;
mod python;
mod rpc;
mod run;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test            everything that CI checks: installs the Debian packages that tests need,
                  then format, layers, lints, tests, documentation, Linux as a peer where that can run
  test --quick    the same without documentation, the long simulation and the peer
  packages        only installs the Debian packages
  python [...]    builds the Python wheel of the key-value client and runs its pytest (part of `cargo xtask test`),
                  with pytest's arguments; --time: measures it beside redis-py
  programs        runs programs of Debian's packages; part of `cargo xtask test`
                  --heavy: those that take long to install, Ceph, NIXL, Mooncake; in no other command
  package [...]   writes a Debian package, a tarball, a Python wheel and a container's recipe to target/packages;
                  --try: also installs and runs each on a clean Debian, as root; docs/install.md says what they bring
  layers          only checks that dependencies between our crates and modules point down,
                  and that no two types have one name
  prose           only checks that sentences of comments, documents and messages are short and name the actor
  examples        only checks that each public item of the Rust API has an example or leads to one
  tables          writes docs/compatibility.md from a run of the demo
  interop [...]   runs programs against Linux Soft-RoCE in a virtual machine, and the crate's tests on the drivers
                  there, as root;
                  --short: a few of them, --help: the rest
  compare [...]   measures Longarm beside UCX, perftest, iperf3 and sockets, and writes docs/performance.md;
                  --vm: also beside the kernel's rxe and siw in a virtual machine, as root;
                  --quick: three minutes, printed only; --help: the rest
  compare --rpc   the targets of longarm-rpc, beside sockets, tonic and tarpc; writes docs/rpc-results.md
  compare --kv    the targets of longarm-kv, beside READ, Redis, Valkey and memcached; writes docs/kv-results.md
  count [ROW...]  instructions and cache misses of each message, counted by callgrind
  guard BINARY    runs a test binary as cargo runs it in `cargo xtask test`: after 20 minutes it prints where all
                  threads stand, and ends it
  fuzz [SECONDS]  every fuzz target for SECONDS each (default 30); needs cargo-fuzz
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["guard", program, ref rest @ ..] = args[..] {
        return guard::guard(program, rest).map_or_else(failed, ExitCode::from);
    }
    let outcome = match args[..] {
        ["test"] => test::all(),
        ["test", "--quick"] => test::quick(),
        ["packages"] => packages::install(),
        ["python", ref rest @ ..] => kv_wheel::try_wheel(rest),
        ["programs"] => programs::light(),
        ["programs", "--heavy"] => programs::heavy(),
        ["package", ref rest @ ..] => package::package(rest),
        ["layers"] => layers::check(),
        ["prose"] => prose::check(),
        ["examples"] => examples::check(),
        ["tables"] => test::tables(),
        ["interop", ref rest @ ..] => interop::interop(rest),
        ["compare", "--rpc", ref rest @ ..] => rpc::compare(rest),
        ["compare", "--kv", ref rest @ ..] => kv::compare(rest),
        ["compare", ref rest @ ..] => compare::compare(rest),
        ["count", ref rows @ ..] => compare::count(rows),
        ["fuzz"] => fuzz::all("30"),
        ["fuzz", seconds] => fuzz::all(seconds),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    outcome.map_or_else(failed, |()| ExitCode::SUCCESS)
}

fn failed(problem: String) -> ExitCode {
    eprintln!("xtask: {problem}");
    ExitCode::FAILURE
}
