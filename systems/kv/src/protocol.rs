//! The messages between clients and server: a head in postcard, and bytes behind it.

use cluster::MemberId;
use longarm_rpc::{Method, Status};
use serde::{Deserialize, Serialize};

use crate::envelope::KvVersion;
use crate::proof::Nonce;

/// The version of these messages.
pub(crate) const PROTOCOL: u16 = 3;
/// The name of the service.
pub(crate) const SERVICE: &str = "longarm.kv.Store";

/// The first word of a refusal of a key that another server has, as in Redis Cluster.
pub(crate) const MOVED: &str = "MOVED ";

/// Bytes of a value in one message. Longer values travel in pieces.
pub(crate) const PIECE_BYTES: usize = 4 << 20;

pub(crate) const CHALLENGE: Method = Method::new("/longarm.kv.Store/Challenge");
pub(crate) const OPEN: Method = Method::new("/longarm.kv.Store/Open");
pub(crate) const CLOSE: Method = Method::new("/longarm.kv.Store/Close");
pub(crate) const ATTACH: Method = Method::new("/longarm.kv.Store/Attach");
pub(crate) const GET: Method = Method::new("/longarm.kv.Store/Get");
pub(crate) const PUT: Method = Method::new("/longarm.kv.Store/Put");
pub(crate) const DELETE: Method = Method::new("/longarm.kv.Store/Delete");
pub(crate) const ADD: Method = Method::new("/longarm.kv.Store/Add");
pub(crate) const EXPIRE: Method = Method::new("/longarm.kv.Store/Expire");
pub(crate) const SCAN: Method = Method::new("/longarm.kv.Store/Scan");
pub(crate) const RANGE: Method = Method::new("/longarm.kv.Store/Range");
pub(crate) const REPORT: Method = Method::new("/longarm.kv.Store/Report");
pub(crate) const FIGURES: Method = Method::new("/longarm.kv.Store/Figures");
pub(crate) const BEGIN: Method = Method::new("/longarm.kv.Store/Begin");
pub(crate) const PIECE: Method = Method::new("/longarm.kv.Store/Piece");
pub(crate) const COMMIT: Method = Method::new("/longarm.kv.Store/Commit");
pub(crate) const CLIENTS: Method = Method::new("/longarm.kv.Store/Clients");
pub(crate) const REVOKE: Method = Method::new("/longarm.kv.Store/Revoke");

/// The secret number by which a client names its right to a table.
pub(crate) type GrantKey = [u8; 16];

#[derive(Serialize, Deserialize)]
pub(crate) struct ChallengeRequest<'a> {
    pub(crate) protocol: u16,
    pub(crate) table: &'a str,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ChallengeReply {
    pub(crate) nonce: Nonce,
    pub(crate) needs_proof: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct OpenTable<'a> {
    pub(crate) table: &'a str,
    pub(crate) nonce: Nonce,
    pub(crate) client_nonce: Nonce,
    pub(crate) proof: Nonce,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenReply {
    pub(crate) grant: GrantKey,
    /// The client's number, for people.
    pub(crate) client: u64,
    pub(crate) proof: Nonce,
    pub(crate) layout: String,
    pub(crate) data_port: u16,
    pub(crate) tag_seed: u64,
    pub(crate) server_ns: u64,
    pub(crate) evicts: bool,
    /// The last change that is on disk. `None`: clients need not know, since changes are acknowledged before.
    pub(crate) durable: Option<u64>,
    /// Clients may PUT alone.
    pub(crate) writable: bool,
    /// The server, if it is a member of a cluster with backups: readers have to mind its term.
    pub(crate) member: Option<MemberId>,
}

/// Every other request begins with the grant.
#[derive(Serialize, Deserialize)]
pub(crate) struct GrantRequest {
    pub(crate) grant: GrantKey,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct AttachRequest {
    pub(crate) grant: GrantKey,
    /// The number in the private data of the connection.
    pub(crate) attempt: u64,
}

/// A key to the table for the client's connection; `None` if the connection does not stand yet.
#[derive(Serialize, Deserialize)]
pub(crate) struct AttachReply {
    pub(crate) key: Option<Vec<u8>>,
    /// The right to PUT alone, if the client asked for it and the table has one to give.
    pub(crate) writer: Option<WriterRight>,
}

/// A client's number as the holder of locks, and its block for copies.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct WriterRight {
    pub(crate) holder: u16,
    pub(crate) copy_at: u64,
    pub(crate) copy_bytes: u64,
}

/// Behind it: the key.
#[derive(Serialize, Deserialize)]
pub(crate) struct GetRequest {
    pub(crate) grant: GrantKey,
    /// Where the wanted bytes begin.
    pub(crate) from: u64,
    /// The version of the bytes before, if these are not the first.
    pub(crate) version: Option<KvVersion>,
}

/// Behind it: bytes of the value.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct GetReply {
    pub(crate) server_ns: u64,
    /// The last change that is on disk, or with all backups, if clients have to know; else zero.
    pub(crate) durable: u64,
    /// The epoch in which that holds; zero without backups.
    pub(crate) epoch: u64,
    pub(crate) found: Option<FoundValue>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct FoundValue {
    pub(crate) version: KvVersion,
    /// Of the whole value.
    pub(crate) value_bytes: u64,
    /// In the server's clock; zero for never.
    pub(crate) expires_ns: u64,
}

/// The state that a key must be in for a PUT to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PutIf {
    /// Any.
    Always,
    /// The key is absent: INSERT.
    Absent,
    /// The key is present: UPDATE.
    Present,
    /// The key has this version: compare-and-swap.
    Version(KvVersion),
}

/// The time to live that a PUT gives a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PutExpiry {
    /// The key stays.
    Never,
    /// The key keeps the expiry that it has.
    Keep,
    /// The key expires after so many nanoseconds.
    AfterNs(u64),
}

/// Behind it: the key, then the value.
#[derive(Serialize, Deserialize)]
pub(crate) struct PutRequest {
    pub(crate) grant: GrantKey,
    pub(crate) condition: PutIf,
    pub(crate) expiry: PutExpiry,
    pub(crate) key_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PutReply {
    Stored {
        version: KvVersion,
        is_new: bool,
    },
    /// The key is not in the wanted state.
    Conflict(Option<KvVersion>),
    /// Freed memory is not yet free: soon.
    Later,
}

/// Behind it: the key.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeleteRequest {
    pub(crate) grant: GrantKey,
    pub(crate) version: Option<KvVersion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DeleteReply {
    Deleted,
    Absent,
    Conflict(KvVersion),
}

/// Behind it: the key.
#[derive(Serialize, Deserialize)]
pub(crate) struct AddRequest {
    pub(crate) grant: GrantKey,
    pub(crate) add: i64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct AddReply {
    /// `None`: freed memory is not yet free.
    pub(crate) value: Option<i64>,
}

/// Behind it: the key.
#[derive(Serialize, Deserialize)]
pub(crate) struct ExpireRequest {
    pub(crate) grant: GrantKey,
    /// `None` only asks.
    pub(crate) expiry: Option<PutExpiry>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ExpireReply {
    pub(crate) server_ns: u64,
    pub(crate) outcome: ExpireOutcome,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum ExpireOutcome {
    Absent,
    /// The expiry now, in the server's clock; zero for never.
    Expires(u64),
    /// Freed memory is not yet free.
    Later,
}

/// Behind it: the prefix of the wanted keys.
#[derive(Serialize, Deserialize)]
pub(crate) struct ScanRequest {
    pub(crate) grant: GrantKey,
    pub(crate) cursor: u64,
    pub(crate) count: u32,
}

/// Behind it: the keys, each with its length in four bytes before it.
#[derive(Serialize, Deserialize)]
pub(crate) struct ScanReply {
    /// Zero at the end.
    pub(crate) next: u64,
}

/// Behind it: the first key of the range, then the first key behind it, if the range has an end.
#[derive(Serialize, Deserialize)]
pub(crate) struct RangeRequest {
    pub(crate) grant: GrantKey,
    /// Keys that are wanted at most. The server may tell fewer.
    pub(crate) limit: u64,
    pub(crate) first_bytes: u32,
    pub(crate) has_end: bool,
}

/// Behind it: [`RangeItem`]s, each with its key and the first bytes of its value.
#[derive(Serialize, Deserialize)]
pub(crate) struct RangeReply<'a> {
    pub(crate) server_ns: u64,
    pub(crate) items: u64,
    /// The key from which to go on; `None` at the end of the range.
    #[serde(borrow)]
    pub(crate) next: Option<&'a [u8]>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RangeItem {
    pub(crate) version: KvVersion,
    pub(crate) key_bytes: u32,
    /// Of the whole value.
    pub(crate) value_bytes: u64,
    /// Those that are here: all or none.
    pub(crate) here_bytes: u32,
}

/// A client's GETs that the server did not see. Behind it: tags of some of the keys, 8 bytes each.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReportRequest {
    pub(crate) grant: GrantKey,
    pub(crate) gets: u64,
}

/// Behind it: the key.
#[derive(Serialize, Deserialize)]
pub(crate) struct BeginRequest {
    pub(crate) grant: GrantKey,
    pub(crate) value_bytes: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct BeginReply {
    pub(crate) upload: u64,
}

/// Behind it: bytes of the value.
#[derive(Serialize, Deserialize)]
pub(crate) struct PieceRequest {
    pub(crate) grant: GrantKey,
    pub(crate) upload: u64,
    pub(crate) from: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct CommitRequest {
    pub(crate) grant: GrantKey,
    pub(crate) upload: u64,
    pub(crate) condition: PutIf,
    pub(crate) expiry: PutExpiry,
}

/// A client of a table, as its server knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableClient {
    /// Its number.
    pub client: u64,
    /// The address of its connection for READs, if it has one.
    pub address: Option<String>,
    /// Nanoseconds since its last request.
    pub idle_ns: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ClientsReply {
    pub(crate) clients: Vec<TableClient>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct RevokeRequest {
    pub(crate) grant: GrantKey,
    /// `None`: all others.
    pub(crate) client: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct RevokeReply {
    pub(crate) revoked: u64,
}

/// Appends a message to `out`.
pub(crate) fn encode(head: &impl Serialize, parts: &[&[u8]], out: &mut Vec<u8>) {
    let start = std::mem::take(out);
    // Vectors take any number of bytes, and the heads have no type that postcard refuses.
    *out = postcard::to_extend(head, start).unwrap_or_default();
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// The head of a message, and the bytes behind it.
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8]), Status> {
    postcard::take_from_bytes(bytes).map_err(|_| Status::invalid_argument("the message is malformed"))
}

/// The first of pieces that each have their length in four bytes before them, and the rest.
pub(crate) fn split_framed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_its_head_and_the_bytes_behind_it() {
        let head = PutRequest { grant: [3; 16], condition: PutIf::Absent, expiry: PutExpiry::AfterNs(9), key_bytes: 3 };
        let mut bytes = b"x".to_vec();
        encode(&head, &[b"key", b"value"], &mut bytes);
        let (back, rest): (PutRequest, _) = decode(&bytes[1..]).unwrap();
        assert_eq!(
            (back.condition, back.expiry, back.key_bytes, rest),
            (head.condition, head.expiry, 3, &b"keyvalue"[..])
        );
        for len in 0..bytes.len() - 9 {
            assert!(decode::<PutRequest>(&bytes[1..1 + len]).is_err(), "{len} bytes");
        }
    }
}
