//! The messages between clients and a memory server, in postcard: one request, one answer.

use longarm_rpc::{Method, Status};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exposure::ConnectionToken;
use crate::proof::ProofBytes;

pub(crate) const SERVICE: &str = "longarm.memory.Server";
/// The version of these messages.
pub(crate) const PROTOCOL: u16 = 1;
/// The purpose of proofs.
pub(crate) const PURPOSE: &str = "longarm-memory 1";

pub(crate) const BEGIN: Method = Method::new("/longarm.memory.Server/Begin");
pub(crate) const ASK: Method = Method::new("/longarm.memory.Server/Ask");

/// The operations that a client may do on a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegionRole {
    /// READ.
    Reader,
    /// READ, WRITE, atomics, allocation of pieces.
    Writer,
}

impl RegionRole {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            RegionRole::Reader => "reader",
            RegionRole::Writer => "writer",
        }
    }
}

/// The end of a piece's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PieceLife {
    /// It goes back when the client ends, or does not renew its lease.
    Client,
    /// It stays until a writer frees it, or the region is dropped.
    Region,
}

/// A region, as its server knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedRegionInfo {
    /// Its name.
    pub name: String,
    /// Its length.
    pub len_bytes: u64,
    /// Bytes in pieces.
    pub used_bytes: u64,
    /// Pieces.
    pub pieces: u64,
    /// Clients that have it open.
    pub clients: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct LeaseRequest {
    pub(crate) protocol: u16,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LeaseReply {
    pub(crate) token: ConnectionToken,
    pub(crate) nonce: ProofBytes,
    pub(crate) data_port: u16,
    pub(crate) lease_ms: u64,
}

/// The client's half of a proof.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RegionProof {
    pub(crate) nonce: ProofBytes,
    pub(crate) proof: ProofBytes,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct AskRequest<'a> {
    pub(crate) token: ConnectionToken,
    #[serde(borrow)]
    pub(crate) ask: RegionAsk<'a>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum RegionAsk<'a> {
    Renew,
    End,
    /// Proves that the client owns the tenant's regions.
    Own {
        tenant: &'a str,
        proof: RegionProof,
    },
    Create {
        tenant: &'a str,
        name: &'a str,
        len_bytes: u64,
    },
    Drop {
        tenant: &'a str,
        name: &'a str,
    },
    List {
        tenant: &'a str,
    },
    /// Without a proof it is for owners.
    Open {
        tenant: &'a str,
        name: &'a str,
        role: RegionRole,
        proof: Option<RegionProof>,
    },
    /// The key of a window, when the client's connection stands.
    Find {
        window: u32,
    },
    Close {
        window: u32,
    },
    Allocate {
        window: u32,
        len_bytes: u64,
        life: PieceLife,
    },
    Free {
        window: u32,
        at: u64,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum RegionAnswer {
    Done,
    /// The server's half of the proof.
    Owned(ProofBytes),
    Listed(Vec<NamedRegionInfo>),
    Opened {
        window: u32,
        len_bytes: u64,
        proof: Option<ProofBytes>,
    },
    Found(Option<Vec<u8>>),
    Allocated(u64),
}

/// The subject of a proof of a role.
pub(crate) fn subject(tenant: &str, name: &str, role: RegionRole) -> String {
    format!("{}\0{tenant}\0{name}", role.name())
}

pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Vectors take any number of bytes, and the messages have no type that postcard refuses.
    postcard::to_stdvec(message).unwrap_or_default()
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Status> {
    postcard::from_bytes(bytes).map_err(|_| malformed())
}

pub(crate) fn malformed() -> Status {
    Status::invalid_argument("the message is malformed")
}
