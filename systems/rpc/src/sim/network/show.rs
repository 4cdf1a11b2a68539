//! Requests, notices and ends as a trace shows them.

use std::fmt;

use super::{EndId, SimNotice, SimOp};

impl fmt::Display for SimNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimNotice::Message(bytes) => write!(f, "message {}", hex_head(bytes)),
            SimNotice::Imm(imm) => write!(f, "immediate data {imm:#x}"),
            SimNotice::ReadDone(tag, bytes) => write!(f, "end of READ {tag:#x}: {:?}", bytes.as_ref().map(Vec::len)),
            SimNotice::Datagram(bytes) => write!(f, "datagram of {} bytes {}", bytes.len(), hex_head(bytes)),
            SimNotice::Down => f.write_str("end of the connection"),
        }
    }
}

/// The first bytes, for a trace.
fn hex_head(bytes: &[u8]) -> String {
    bytes.iter().take(32).map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for EndId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_server { "server" } else { "client" }, self.connection)
    }
}

impl fmt::Display for SimOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimOp::Write { at, bytes, imm } => {
                write!(f, "WRITE of {} bytes to {at:#x}, imm {imm:x?}: {}", bytes.len(), hex_head(bytes))
            }
            SimOp::Send(bytes) => write!(f, "SEND of {} bytes: {}", bytes.len(), hex_head(bytes)),
            SimOp::Read { key, tag } => {
                write!(f, "READ of {} bytes at {:#x}, tag {tag:#x}", key.len_bytes(), key.addr())
            }
        }
    }
}
