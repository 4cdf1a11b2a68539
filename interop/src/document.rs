//! Generates `docs/interop-matrix.md` from the tables; only tests use it.

use std::fmt::Write;

use crate::case::{Case, ETHERNET, Role};
use crate::explained;
use crate::golden::GOLDEN;
use crate::tables::GROUPS;
use crate::trials::TRIALS;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/interop-matrix.md");

const HEAD: &str = "\
# Interoperation matrix

Unmodified programs of Debian 12 with Longarm on one side and the Soft-RoCE driver (rxe) of Debian's kernel
6.1, in a virtual machine, on the other. Written from the tables in `interop/src`
(`LONGARM_WRITE_DOCS=1 cargo test -p longarm-interop the_document`); `cargo xtask interop` runs every row
in each direction over IPv4 and over IPv6, and fails if one of them does.

Result: **✓ data** – the program itself compared the data and found no difference; **✓** – both sides ended well
and reported all their measurements. *Faults* are a seeded plan for what Longarm sends (`LONGARM_FAULTS`), *netem*
is the guest's queueing discipline, for what rxe sends.
";

const TRIED: &str = "
## Consumers in the kernel, and ends that die

| tried | outcome, or the run fails |
|---|---|
";

const PACKETS: &str = "
## Packets, compared with those of rxe

The exchanges of the golden captures (`crates/wire/tests/golden`: rxe on both ends), with Longarm in place of
either end. The test compares its packets with those that rxe sent there: every field of IP, UDP, BTH and the extension
headers, with PSNs relative to the first, and the ICRC. Numbers that are drawn anew for each run (queue pairs,
keys, addresses, first PSNs) are left out.

| capture | command on both sides |
|---|---|
";

const MEANT: &str = "
Everything is equal except for these intended differences; any other difference fails the run:

| field | Longarm | rxe | packets | why |
|---|---|---|---|---|
";

fn text() -> String {
    let mut text = HEAD.to_owned();
    for group in &GROUPS {
        let head = "| program | options | Longarm → rxe | rxe → Longarm |\n|---|---|---|---|";
        let _ = write!(text, "\n## {}\n\n{head}\n", group.title);
        group.cases.iter().for_each(|case| text.push_str(&row(case)));
    }
    text.push_str(TRIED);
    for trial in &TRIALS {
        let _ = writeln!(text, "| {} | {} |", trial.name, trial.outcome);
    }
    text.push_str(PACKETS);
    for golden in &GOLDEN {
        let _ = writeln!(text, "| {} | `{} {}` |", golden.name, golden.case.program, golden.case.options);
    }
    text.push_str(MEANT);
    for known in &explained::ALL {
        let any = |value: &'static str| if value.is_empty() { "any" } else { value };
        let (ours, theirs) = (any(known.ours), any(known.theirs));
        let packets = [known.opcode, known.capture].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        let packets = if packets.is_empty() { "any".to_owned() } else { packets.join(", ") };
        let _ = writeln!(text, "| {} | {ours} | {theirs} | {packets} | {} |", known.field, known.why);
    }
    text
}

fn row(case: &Case) -> String {
    let result = if case.verified { "✓ data" } else { "✓" };
    let mut options = if case.options.is_empty() { String::new() } else { format!("`{}`", case.options) };
    if case.mtu != ETHERNET {
        let _ = write!(options, ", link {}", case.mtu);
    }
    if let Some(plan) = case.faults {
        let _ = write!(options, ", faults `{plan}`");
    }
    if let Some(what) = case.netem {
        let _ = write!(options, ", netem `{what}`");
    }
    if !case.limit.is_empty() {
        let _ = write!(options, " ({})", case.limit);
    }
    let [as_client, as_server] =
        [Role::Client, Role::Server].map(|role| if case.roles.contains(&role) { result } else { "–" });
    format!("| {} | {options} | {as_client} | {as_server} |\n", case.program)
}

#[test]
fn the_document_tells_what_is_run() {
    let text = text();
    if std::env::var_os("LONGARM_WRITE_DOCS").is_some() {
        std::fs::write(PATH, &text).expect("docs/interop-matrix.md can be written");
    }
    let file = std::fs::read_to_string(PATH).expect("docs/interop-matrix.md");
    assert_eq!(file, text, "docs/interop-matrix.md is not from these tables: set LONGARM_WRITE_DOCS=1");
}
