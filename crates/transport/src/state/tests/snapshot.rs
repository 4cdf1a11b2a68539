//! The whole table, printed and compared: a change of behaviour shows as a diff.
//! `UPDATE_GOLDEN=1 cargo test -p longarm-transport snapshot` rewrites the file.

use std::fmt::Write;

use crate::attr::QpState::{self, Error, Init, Reset, Rtr, Rts, Sqd, Sqe};
use crate::attr::{AttrMask, QpType};
use crate::state::table;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/state_table.txt");
const STATES: [QpState; 7] = [Reset, Init, Rtr, Rts, Sqd, Sqe, Error];

const SERVICES: [QpType; 5] = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcSend, QpType::XrcRecv];

fn print() -> String {
    let mut text =
        String::from("Steps between the states of a queue pair: attributes needed | attributes taken besides.\n");
    for service in SERVICES {
        write!(text, "\n{service:?}\n").expect("a string");
        for from in STATES {
            for to in STATES {
                print_step(&mut text, from, to, service);
            }
        }
    }
    text
}

fn print_step(text: &mut String, from: QpState, to: QpState, service: QpType) {
    let Some(step) = table::find(from, to, service) else { return };
    let (required, optional) = (names(step.required), names(step.optional));
    writeln!(text, "{:>5} -> {:<5} {required} | {optional}", format!("{from:?}"), format!("{to:?}")).expect("a string");
}

fn names(mask: AttrMask) -> String {
    let names: Vec<_> = mask.iter_names().map(|(name, _)| name).collect();
    if names.is_empty() { "-".into() } else { names.join(" ") }
}

#[test]
fn the_table_is_the_golden_one() {
    let text = print();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(FILE, &text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(FILE).expect("the golden file");
    assert!(text == golden, "the state table changed; it is now\n{text}");
}

#[test]
fn each_step_is_declared_once() {
    for service in SERVICES {
        for (from, to) in STATES.iter().flat_map(|from| STATES.map(|to| (*from, to))) {
            assert!(table::count(from, to, service) <= 1, "{service:?} {from:?} -> {to:?}");
        }
    }
}
