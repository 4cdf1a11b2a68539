//! Generates `docs/devices.md` from the tables and the names of the tests; only tests use it.

use std::fmt::Write;

use super::{COMMANDS, LACKING, SUITES, SuiteDevice};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/devices.md");
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/longarm/tests");

const HEAD: &str = "\
# The Rust API on devices of the system

The crate `longarm` also runs on the system's own RDMA devices, by their `libibverbs` and `librdmacm`. This page lists
its tests, its examples and commands of `longarm` on three of them: Longarm's own libraries in the place of the
system's, and Linux rxe (RoCEv2) and siw (iWARP) in a virtual machine with Debian's kernel 6.1. The page is written from
the tables in `interop/src/suites` (`LONGARM_WRITE_DOCS=1 cargo test -p longarm-interop the_document`).
`cargo test -p longarm-cli --test provider` runs the first column, and `cargo xtask interop` the others. A run fails if a
test does, or if it lacks more or less than this page says.

✓: the test passes, with all that it is about. *Not there*: the device lacks this. The test goes on with the rest. If
the API has a request for it, the test also checks that the device refuses the request and names the reason.
[`Capabilities`](rust-api.md) tell a program beforehand.
";

const FAULTS: &str = "
## Faults of the drivers

The provider knows these, and programs do not notice them:

| driver | fault | the provider |
|---|---|---|
| rxe | drops a datagram that is longer than a packet, and reports success | refuses it |
| rxe | leaves the checksum out of the IPv4 header that a datagram arrives with | knows the sender all the same |
| rxe | marks a completion that invalidates a key with the kernel's flag, not that of `ibv_poll_cq(3)` | reads that flag |
| rxe | a queue pair in a multicast group receives nothing unless the host is in the group | joins it on the host, too |
| siw | a message that the peer wants noticed causes no event | each completion causes one |
| siw | refuses a receive without bytes, as a negative errno | gives it an entry of no bytes |
| siw | completion queues cannot be resized | makes them for 65,536 completions |
| siw | `ibv_query_qp(3)` does not tell the state | remembers it |
| siw | takes requests for a connection that is over, and never completes them | refuses them |
| both | a peer whose program has given up waits in the listener's queue | accepting it fails |

iWARP ends a connection whose message finds no receive buffer; RoCE repeats the message. So tests that run on both post a
buffer before they send the message that lets the peer go on.

To withdraw a request for a connection takes the kernel up to ten seconds on siw. A thread of the library waits for that,
not the one that drops the future.
";

fn text() -> String {
    let mut text = HEAD.to_owned();
    for (suite, _) in SUITES {
        let _ = write!(text, "\n## {suite}\n\n{}", table("test"));
        tests(suite).iter().for_each(|test| text.push_str(&row(suite, test, &test.replace('_', " "))));
    }
    let _ = write!(text, "\n## Commands\n\n{}", table("command"));
    COMMANDS.iter().for_each(|command| text.push_str(&row("longarm", command, &format!("`longarm {command}`"))));
    text + FAULTS
}

fn table(first: &str) -> String {
    format!("| {first} | Longarm's libraries | rxe | siw |\n|---|---|---|---|\n")
}

fn row(suite: &str, test: &str, name: &str) -> String {
    let cell = |device| {
        let rows = LACKING.iter().filter(|row| row.suite == suite && row.test == test && row.on.contains(&device));
        let whats: Vec<&str> = rows.map(|row| row.what).collect();
        if whats.is_empty() { "✓".to_owned() } else { format!("*not there:* {}", whats.join("; ")) }
    };
    let [own, rxe, siw] = [SuiteDevice::Own, SuiteDevice::Rxe, SuiteDevice::Siw].map(cell);
    format!("| {name} | {own} | {rxe} | {siw} |\n")
}

/// The names of a suite's tests, in the order of its file.
fn tests(suite: &str) -> Vec<String> {
    let source = std::fs::read_to_string(format!("{TESTS}/{suite}.rs")).expect("the suite's file");
    let after = source.split("#[test]").skip(1);
    let names = after.filter_map(|rest| rest.split_once("fn ")?.1.split_once('('));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn the_document_tells_what_runs_where() {
    let text = text();
    if std::env::var_os("LONGARM_WRITE_DOCS").is_some() {
        std::fs::write(PATH, &text).expect("docs/devices.md can be written");
    }
    let file = std::fs::read_to_string(PATH).expect("docs/devices.md");
    assert_eq!(file, text, "docs/devices.md is not from these tables: set LONGARM_WRITE_DOCS=1");
}

#[test]
fn the_table_names_tests_that_exist() {
    for (at, row) in LACKING.iter().enumerate() {
        let same = |other: &super::Lacking| (other.suite, other.test, other.what) == (row.suite, row.test, row.what);
        assert!(!LACKING[..at].iter().any(same), "twice: {}: {}, {}", row.suite, row.test, row.what);
        let exists = match row.suite {
            "longarm" => COMMANDS.contains(&row.test),
            suite => tests(suite).iter().any(|test| test == row.test),
        };
        assert!(exists, "{}: {}", row.suite, row.test);
    }
}

#[test]
fn every_suite_is_listed() {
    let of_crate = std::fs::read_dir(TESTS).expect("the suites").flatten();
    let names = of_crate.filter_map(|file| file.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned));
    // These need a compiler.
    let names = names.filter(|name| !["compile_fail", "guide"].contains(&name.as_str()));
    for name in names {
        assert!(SUITES.iter().any(|(suite, _)| *suite == name), "{name} is in no row of SUITES");
    }
}
