//! Intended differences between Longarm's packets and those of Soft-RoCE. A difference that is not
//! here fails the run. `docs/interop.md` explains each.

use crate::compare::Difference;

/// An intended difference: its place and its reason.
pub(crate) struct Explained {
    /// The field, as the comparison names it.
    pub(crate) field: &'static str,
    /// Longarm's value and Soft-RoCE's; empty: any.
    pub(crate) ours: &'static str,
    pub(crate) theirs: &'static str,
    /// A part of the opcode's name; empty: any.
    pub(crate) opcode: &'static str,
    /// The capture; empty: any.
    pub(crate) capture: &'static str,
    pub(crate) why: &'static str,
}

const fn meant(
    field: &'static str,
    (ours, theirs): (&'static str, &'static str),
    opcode: &'static str,
    why: &'static str,
) -> Explained {
    Explained { field, ours, theirs, opcode, capture: "", why }
}

const HANGS_UP: &str = "both ends disconnect, and the first one sends DREQ";
const SHUTS_DOWN: &str = "the end that shuts down first tells the peer, which acknowledges it";

/// All intended differences.
pub(crate) const ALL: [Explained; 18] = [
    meant(
        "IPv4 identification",
        ("0", "not 0"),
        "",
        "an unprivileged UDP socket with path MTU discovery sends 0, or the segment's number within one send",
    ),
    meant("UDP checksum", ("not 0", "0"), "", "the kernel computes it for every datagram; the ICRC masks it"),
    meant(
        "UDP source port",
        ("another above 0xc000", "by the formula"),
        "",
        "one socket per source port, so the formula's result is folded into a bounded set",
    ),
    meant("TTL or hop limit", ("255", "64"), "", "the program asks for 255 and gets it; rxe takes the route's"),
    meant(
        "TOS or traffic class",
        ("0x02", "0x00"),
        "RC_",
        "ECT(0): switches may mark the packets instead of dropping them (DCQCN); rxe never asks",
    ),
    meant(
        "reserved after AckReq",
        ("0x53", "0x00"),
        "RC_",
        "the first requests offer selective retransmission; peers that do not know it ignore reserved bits",
    ),
    meant("IPv6 flow label", ("", "0x0"), "", "the kernel labels the flows of UDP sockets; the ICRC masks it"),
    meant(
        "AckReq",
        ("true", "false"),
        "_MIDDLE",
        "requested every 16th or 32nd packet: the window must learn what arrived",
    ),
    meant("AckReq", ("false", "true"), "_MIDDLE", "rxe asks after 64 packets without; we have asked before"),
    meant("AETH credits", ("", "none"), "", "the receive WQEs that are posted (9.7.7.2); rxe never counts them"),
    meant(
        "packet that only they send",
        ("-", "sent"),
        "RC_ACKNOWLEDGE",
        "one ACK for everything that arrived together (9.7.5.1.2)",
    ),
    meant(
        "packet sent again",
        ("sent again", "-"),
        "",
        "the peer, emulated, takes longer than a probe waits; the first measurement of its time is still to come",
    ),
    meant("packet that only we send", ("sent", "-"), "DRE", HANGS_UP),
    meant("packet that only they send", ("-", "sent"), "DRE", HANGS_UP),
    Explained {
        capture: "rstream",
        ..meant("packet that only they send", ("-", "sent"), "WRITE_ONLY_IMM", SHUTS_DOWN)
    },
    Explained { capture: "rstream", ..meant("packet that only we send", ("sent", "-"), "WRITE_ONLY_IMM", SHUTS_DOWN) },
    Explained { capture: "rstream", ..meant("packet that only we send", ("sent", "-"), "ACKNOWLEDGE", SHUTS_DOWN) },
    Explained {
        capture: "srq_pingpong",
        ..meant("packet that only we send", ("sent", "-"), "RC_", "the program's queue pairs race to its last message")
    },
];

/// The reason for a difference, if it is intended.
pub(crate) fn by(difference: &Difference, capture: &str) -> Option<&'static str> {
    let fits = |known: &&Explained| {
        known.field == difference.field
            && (known.ours.is_empty() || known.ours == difference.ours)
            && (known.theirs.is_empty() || known.theirs == difference.theirs)
            && (known.capture.is_empty() || known.capture == capture)
            && difference.opcodes.iter().all(|opcode| opcode.contains(known.opcode))
    };
    ALL.iter().find(fits).map(|known| known.why)
}
