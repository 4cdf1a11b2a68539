//! Generates `docs/programs.md` from the tables.

use std::fmt::Write;

use crate::case::{Case, CaseSetup};
use crate::{skips, tables};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/programs.md");

const HEAD: &str = "\
# Programs

Unmodified programs of Debian 12's packages that run on this device, with the options that the
tests run them with. Written from the tables in `crates/cli/tests/programs`
(`LONGARM_WRITE_DOCS=1 cargo test -p longarm-cli --test programs the_document`); every row is run
by `cargo test -p longarm-cli --test programs`.

Result: **✓ data** – the program itself compared the data and found no difference; **✓** – it ended
well and reported all its measurements. Rows with a fault plan ran while this device lost, repeated
or reordered packets.
";

const LEFT_OUT: &str = "
## What these packages do not offer

| program | option | why |
|---|---|---|
| ib_write_bw, ib_write_lat | `-e` | perftest itself refuses events for WRITE. |
| ib_atomic_bw, ib_read_bw | `-c UC` | The transport has neither READs nor atomics. |
| qperf | `xrc_bw`, `xrc_lat`, `xrc_bi_bw` | Debian's qperf is built without them: \"bad test\". |
| ib_send_bw | `-c UC` with large messages | UC does not send lost packets again, and the program waits for every message: \
the sender must not be faster than the receiver. |
| tgtd (1.0.85) | iSER with an address bound (`-I`) and no name | It says \"target not found\" (0203) until the \
initiator's name is bound as well (`-Q`). |
| libiscsi (1.19) | iSER, requests of 512 KiB and more | It refuses them itself. |
";

const HEAVY: &str = "
## Programs that take long to install

`cargo xtask programs --heavy` installs and runs them (`crates/cli/tests/heavy`); no other command does. Last run: 22 November
2026, two processors that others used as well.

| program | what | result |
|---|---|---|
| Ceph 16.2.15 (Debian), `ms_type = async+rdma` | monitor, OSD in memory; `rados put` and `get` of 20 MB; `rados bench` of 64 KiB, \
8 at once, written, read and verified | ✓ data; 151 to 157 MB/s written, 183 to 288 MB/s read in two runs |
| NIXL 1.5.1 (PyPI, `nixl-cu12`), which carries a renamed libibverbs | two agents, backend UCX, `UCX_TLS=rc_v,ud_v`: \
WRITE and READ of 8 MiB | ✓ data |
| Mooncake 0.3.13 (PyPI, `mooncake-transfer-engine-non-cuda`) | two transfer engines, protocol `rdma`: WRITE and READ of 8 MiB | ✓ data |

## Tried by hand, or not at all

| program | what | result |
|---|---|---|
| eRPC over RoCE | cannot be had from a registry; `crates/ibverbs/tests/c/rpc.c` uses the device in the same way | ✓ data |
| Valkey over RDMA | Debian 12 has no Valkey, and its Redis has no RDMA | – |
| mpich, RMA windows | wrong results over UCX' TCP and shared memory as well, without Longarm | – |
";

/// Compares the file with the tables, or writes it if `LONGARM_WRITE_DOCS` is set.
pub(crate) fn check() {
    let text = text();
    if std::env::var_os("LONGARM_WRITE_DOCS").is_some() {
        std::fs::write(PATH, &text).expect("docs/programs.md can be written");
    }
    let file = std::fs::read_to_string(PATH).expect("docs/programs.md");
    assert_eq!(file, text, "docs/programs.md is not from these tables: set LONGARM_WRITE_DOCS=1");
}

fn text() -> String {
    let mut text = HEAD.to_owned();
    for family in tables::FAMILIES {
        let _ = write!(text, "\n## {}\n\n| program | options | result |\n|---|---|---|\n", family.title);
        family.cases.iter().for_each(|case| text.push_str(&row(case)));
    }
    text.push_str(HEAVY);
    text.push_str(LEFT_OUT);
    text.push_str(&pyverbs());
    text
}

fn row(case: &Case) -> String {
    let program = if case.name.is_empty() { case.program } else { case.name };
    let options = match case.program {
        // Each side has its own commands, in a shell.
        "sh" => case.client.trim_matches('\'').to_owned(),
        _ => both(case),
    };
    let options = if options.is_empty() { "–".to_owned() } else { format!("`{options}`") };
    let faults = case.faults.map_or_else(String::new, |plan| format!(", faults `{plan}`"));
    let result = match (case.how, case.verified) {
        (CaseSetup::Lives, _) => "✓ runs until it is killed",
        (_, true) => "✓ data",
        (_, false) => "✓",
    };
    format!("| {program} | {options}{faults} | {result} |\n")
}

/// The options of both sides; different options follow the side's name.
fn both(case: &Case) -> String {
    let (server, client) = match case.server {
        "" => (String::new(), case.client.replace("{server} ", "")),
        server => (format!("server: {server},"), format!("client: {}", case.client)),
    };
    let words = [case.environment, case.options, &server, &client];
    words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")
}

fn pyverbs() -> String {
    let mut text = format!(
        "\n## rdma-core's own tests (pyverbs)\n\nThe suite that Debian ships in `/usr/share/doc/rdma-core/tests`, without the \
         modules of other drivers: at least {} tests pass, none fails. Skipped, and why:\n\n\
         | what the suite says | why |\n|---|---|\n",
        skips::PASSES
    );
    for (says, why) in skips::SKIPS {
        let _ = writeln!(text, "| {says} | {why} |");
    }
    text
}
