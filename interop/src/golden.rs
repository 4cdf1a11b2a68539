//! Repeats the exchanges of the golden captures (`crates/wire/tests/golden`) with Longarm at one end. It
//! compares Longarm's packets, field by field, with those of Soft-RoCE in the capture.

use std::net::IpAddr;
use std::path::Path;

use crate::capture::TcpdumpCapture;
use crate::case::{Case, IpFamily, ROLES, Role};
use crate::compare::{Difference, compare};
use crate::exchange::{OUR_V4, OUR_V6, Wire};
use crate::options::InteropOptions;
use crate::tally::RunTally;
use crate::{connections, explained, namespace};

const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/wire/tests/golden");

/// A capture and the case that made it.
pub(crate) struct Golden {
    pub(crate) name: &'static str,
    pub(crate) case: Case,
    pub(crate) family: IpFamily,
}

const fn golden(name: &'static str, case: Case) -> Golden {
    Golden { name, case, family: IpFamily::V4 }
}

const fn ping(name: &'static str, program: &'static str, options: &'static str) -> Golden {
    golden(name, Case::ping(program, options))
}

const fn perf(name: &'static str, program: &'static str, options: &'static str) -> Golden {
    golden(name, Case::perf(program, options))
}

const RPING: Case = connections::rping("-v -C 2");

pub(crate) const GOLDEN: [Golden; 24] = [
    ping("rc_pingpong", "ibv_rc_pingpong", "-n 3 -s 64"),
    ping("rc_pingpong_4k", "ibv_rc_pingpong", "-n 2 -s 4099 -m 1024"),
    ping("rc_pingpong_mtu256", "ibv_rc_pingpong", "-n 2 -s 700 -m 256"),
    ping("rc_long", "ibv_rc_pingpong", "-n 1 -s 40000 -m 256"),
    ping("uc_pingpong", "ibv_uc_pingpong", "-n 3 -s 2500"),
    ping("ud_pingpong", "ibv_ud_pingpong", "-n 3 -s 61"),
    ping("srq_pingpong", "ibv_srq_pingpong", "-n 4 -q 2 -s 32"),
    perf("send_bw", "ib_send_bw", "-n 5 -s 3000"),
    perf("send_bw_ud", "ib_send_bw", "-c UD -n 5 -s 100"),
    perf("write_lat", "ib_write_lat", "-n 5 -s 5"),
    perf("write_bw", "ib_write_bw", "-n 5 -s 3000"),
    perf("write_bw_uc", "ib_write_bw", "-c UC -n 5 -s 100"),
    perf("read_bw", "ib_read_bw", "-n 5 -s 3000"),
    perf("read_lat", "ib_read_lat", "-n 5 -s 7"),
    perf("atomic_fa", "ib_atomic_bw", "-n 5 -A FETCH_AND_ADD"),
    perf("atomic_cas", "ib_atomic_lat", "-n 5 -A CMP_AND_SWAP"),
    Golden { family: IpFamily::V6, ..ping("rc_pingpong_v6", "ibv_rc_pingpong", "-n 2 -s 64") },
    golden("rping", RPING),
    Golden { family: IpFamily::V6, ..golden("rping_v6", RPING) },
    golden("ucmatose", connections::example("ucmatose", "-C 2 -S 20")),
    golden("udaddy", connections::example("udaddy", "-C 2 -S 20")),
    golden("rstream", connections::stream("rstream", "-C 3 -S 100")),
    golden("mckey", connections::mckey("-m 239.7.7.7 -C 2 -S 20", "239.7.7.7")),
    golden("send_bw_cm", Case::perf_connects("ib_send_bw", "-R -n 5 -s 100").listens_late()),
];

/// The addresses of server and client in the golden captures.
const GOLDEN_V4: [&str; 2] = ["10.77.0.11", "10.77.0.12"];
const GOLDEN_V6: [&str; 2] = ["fd77::b", "fd77::c"];

impl Golden {
    /// The host in the capture whose part Longarm takes.
    fn model(&self, role: Role) -> IpAddr {
        let hosts = if self.family == IpFamily::V4 { GOLDEN_V4 } else { GOLDEN_V6 };
        address(hosts[usize::from(role == Role::Client)])
    }

    fn ours(&self) -> IpAddr {
        address(if self.family == IpFamily::V4 { OUR_V4 } else { OUR_V6 })
    }
}

/// Performs, captures and compares the exchanges that the options select.
pub(crate) fn all(wire: &mut Wire, options: &InteropOptions, run: &Path, tally: &mut RunTally) -> Result<(), String> {
    let brief = ["rc_pingpong_mtu256", "read_bw", "rc_pingpong_v6", "rping_v6", "ucmatose"];
    let chosen = GOLDEN.iter().filter(|golden| !options.short || brief.contains(&golden.name));
    for golden in chosen.filter(|golden| format!("golden {}", golden.name).contains(&options.only)) {
        for role in ROLES {
            tally.count += 1;
            let title = format!("golden {} as {role:?}", golden.name);
            let mut captured = capture(wire, golden, role, run)?;
            for _ in 1..golden.case.attempts {
                if captured.is_err() {
                    captured = capture(wire, golden, role, run)?;
                }
            }
            let pcap = match captured {
                Ok(pcap) => pcap,
                Err(problem) => {
                    println!("        {title}: {problem}");
                    tally.failures.push(format!("{title}: {problem}"));
                    continue;
                }
            };
            let theirs = read(&format!("{CAPTURES}/{}.pcap", golden.name))?;
            let found = compare((&pcap, golden.ours()), (&theirs, golden.model(role)))?;
            let unexplained = report(&title, golden.name, &found, options.verbose);
            tally.failures.extend((!unexplained.is_empty()).then_some(unexplained));
        }
    }
    Ok(())
}

/// Performs the exchange of a capture; returns the pcap, or the problem.
fn capture(wire: &mut Wire, golden: &Golden, role: Role, run: &Path) -> Result<Result<Vec<u8>, String>, String> {
    let capture = TcpdumpCapture::start(namespace::LINK, &run.join(format!("{}-{role:?}.pcap", golden.name)))?;
    let exchange = golden.case.exchange(&wire.ours, &wire.theirs, role, golden.family);
    let outcome = wire.perform(&exchange)?;
    let pcap = capture.end()?;
    Ok(match outcome.problem() {
        None => Ok(pcap),
        Some(problem) => Err(format!("{problem}\n{outcome}")),
    })
}

/// Prints the differences and returns those without an explanation.
fn report(title: &str, capture: &str, found: &[Difference], verbose: bool) -> String {
    let (known, new): (Vec<_>, Vec<_>) =
        found.iter().partition(|difference| explained::by(difference, capture).is_some());
    println!("        {title}: {} differences have an explanation, {} have not", known.len(), new.len());
    if verbose {
        known.iter().for_each(|difference| println!("          {}", line(difference)));
    }
    new.iter().map(|difference| format!("{title}: {}", line(difference))).collect::<Vec<_>>().join("\n")
}

fn line(difference: &Difference) -> String {
    let Difference { field, ours, theirs, opcodes, count } = difference;
    format!("{field}: {ours}, rxe {theirs} ({count} packets, {})", opcodes.join(", "))
}

/// Compares two files; each is followed by the address of the host to compare.
pub(crate) fn compare_files(names: &[String]) -> Result<(), String> {
    let [ours, our_address, theirs, their_address] = names else {
        return Err("two files and two addresses".into());
    };
    let parse = |text: &str| text.parse::<IpAddr>().map_err(|e| format!("{text}: {e}"));
    let found = compare((&read(ours)?, parse(our_address)?), (&read(theirs)?, parse(their_address)?))?;
    found.iter().for_each(|difference| {
        println!("{}  [{}]", line(difference), explained::by(difference, "").unwrap_or("NOT EXPLAINED"));
    });
    Ok(())
}

fn read(file: &str) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|e| format!("{file}: {e}"))
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address of our own")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The golden capture `name`, and its hosts: server and client.
    fn golden_capture(name: &str) -> (Vec<u8>, [IpAddr; 2]) {
        (read(&format!("{CAPTURES}/{name}.pcap")).unwrap(), GOLDEN_V4.map(address))
    }

    #[test]
    fn every_capture_equals_itself() {
        for golden in &GOLDEN {
            let pcap = read(&format!("{CAPTURES}/{}.pcap", golden.name)).unwrap();
            for role in ROLES {
                let host = golden.model(role);
                let found = compare((&pcap, host), (&pcap, host)).unwrap();
                let repeated = found.iter().all(|difference| difference.field == "packet sent again");
                assert!(repeated, "{}: {found:?}", golden.name);
            }
        }
    }

    #[test]
    fn the_two_ends_of_a_ping_pong_send_the_same() {
        let (pcap, [server, client]) = golden_capture("rc_pingpong_mtu256");
        assert_eq!(compare((&pcap, server), (&pcap, client)), Ok(Vec::new()));
    }

    #[test]
    fn other_sizes_are_found() {
        let (small, [_, client]) = golden_capture("rc_pingpong");
        let (large, _) = golden_capture("rc_pingpong_4k");
        let found = compare((&large, client), (&small, client)).unwrap();
        let has = |field: &str, ours: &str, theirs: &str| {
            found.iter().any(|d| d.field == field && d.ours == ours && d.theirs == theirs)
        };
        assert!(has("opcode", "RC_SEND_FIRST", "RC_SEND_ONLY"), "{found:?}");
        assert!(has("payload bytes", "1024", "64"));
        assert!(has("AckReq", "false", "true"));
        assert!(has("packet that only we send", "sent", "-"));
    }

    #[test]
    fn other_messages_of_the_connection_manager_are_found() {
        let (rping, [_, client]) = golden_capture("rping");
        let (ucmatose, _) = golden_capture("ucmatose");
        let found = compare((&rping, client), (&ucmatose, client)).unwrap();
        let has = |field: &str, message: &str, ours: &str, theirs: &str| {
            found.iter().any(|d| {
                (d.field.as_str(), &d.ours[..], &d.theirs[..]) == (field, ours, theirs) && d.opcodes == [message]
            })
        };
        assert!(has("service id", "REQ", "0x1061c06", "0x1061d2f"), "{found:?}");
        assert!(has("packet that only we send", "DREQ", "sent", "-"), "{found:?}");
        assert!(has("packet that only they send", "DREP", "-", "sent"), "{found:?}");
    }
}
