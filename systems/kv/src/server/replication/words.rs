//! Messages between members, and those about membership.

use cluster::{ClusterOrder, MemberId};
use longarm_rpc::Method;
use serde::{Deserialize, Serialize};

use crate::proof::Nonce;
use crate::protocol::GrantKey;

/// The name of the service.
pub(crate) const SERVICE: &str = "longarm.kv.Replica";

pub(crate) const GREET: Method = Method::new("/longarm.kv.Replica/Greet");
pub(crate) const JOIN: Method = Method::new("/longarm.kv.Replica/Join");
pub(crate) const BATCH: Method = Method::new("/longarm.kv.Replica/Batch");
/// A target asks the former primary of a share for it.
pub(crate) const HAND_OVER: Method = Method::new("/longarm.kv.Replica/HandOver");
/// Messages of the front door of another member.
pub(crate) const MESSAGES: Method = Method::new("/longarm.kv.Replica/Messages");
/// An operator's order.
pub(crate) const ORDER: Method = Method::new("/longarm.kv.Replica/Order");
/// For clients: the term of a member.
pub(crate) const STANDING: Method = Method::new("/longarm.kv.Replica/Standing");
/// For people.
pub(crate) const STATUS: Method = Method::new("/longarm.kv.Replica/Status");

/// The version of these messages.
pub(super) const PROTOCOL: u16 = 3;

#[derive(Serialize, Deserialize)]
pub(crate) struct GreetReply {
    pub(crate) nonce: Nonce,
    pub(crate) needs_proof: bool,
}

/// An order, with the proof that its giver has the secret of the cluster.
#[derive(Serialize, Deserialize)]
pub(crate) struct OrderRequest {
    pub(crate) order: ClusterOrder,
    pub(crate) nonce: Nonce,
    pub(crate) own_nonce: Nonce,
    pub(crate) proof: Nonce,
}

#[derive(Serialize, Deserialize)]
pub(super) struct HandOverRequest {
    pub(super) pass: GrantKey,
    pub(super) to: MemberId,
    pub(super) from: u16,
    pub(super) since: u64,
}

/// Behind it: messages, each behind its length in four bytes.
#[derive(Serialize, Deserialize)]
pub(super) struct MessageRequest {
    pub(super) pass: GrantKey,
    /// The number of the table.
    pub(super) table: u16,
}

#[derive(Serialize, Deserialize)]
pub(super) struct HandOverReply {
    /// The share is released, and these members have the same data. `None`: not yet.
    pub(super) in_step: Option<Vec<MemberId>>,
}

/// A member has a link of each kind to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LinkPurpose {
    /// Batches of records.
    Records,
    /// Questions for shares.
    Moves,
    /// Messages between front doors.
    Messages,
}

/// A primary introduces itself.
#[derive(Serialize, Deserialize)]
pub(super) struct JoinRequest {
    pub(super) protocol: u16,
    pub(super) from: MemberId,
    pub(super) purpose: LinkPurpose,
    /// Its tables in the order of their names: records number them so.
    pub(super) tables: Vec<String>,
    pub(super) nonce: Nonce,
    pub(super) own_nonce: Nonce,
    pub(super) proof: Nonce,
}

#[derive(Serialize, Deserialize)]
pub(super) struct JoinReply {
    /// Stands in each batch.
    pub(super) pass: GrantKey,
    pub(super) proof: Nonce,
}

/// Behind it: bytes of the stream.
#[derive(Serialize, Deserialize)]
pub(super) struct BatchRequest {
    pub(super) pass: GrantKey,
    pub(super) to: MemberId,
    pub(super) epoch: u64,
    pub(super) stream: u64,
    pub(super) offset: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct BatchReply {
    pub(super) received: u64,
    pub(super) applied: u64,
}

/// The term of a member, in its own clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct StandingReply {
    pub(crate) server_ns: u64,
    pub(crate) epoch: u64,
    /// Zero: it has no term.
    pub(crate) until_ns: u64,
    /// Changes up to this number are with all backups.
    pub(crate) safe: u64,
}

/// A member of a cluster, as it sees itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemberStatus {
    /// The member.
    pub member: MemberId,
    /// The epoch of the configuration that it knows; zero without one.
    pub epoch: u64,
    /// Nanoseconds for which it may serve from now on.
    pub term_left_ns: u64,
    /// The number of its last change.
    pub last: u64,
    /// Changes up to this number are with all backups.
    pub settled: u64,
    /// The members that it sends changes to.
    pub lags: Vec<MemberLag>,
}

/// The delay of a member behind the primary of a share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemberLag {
    /// The name of the member.
    pub name: String,
    /// The first slot of the share.
    pub from: u16,
    /// Bytes that it has not applied yet.
    pub bytes: u64,
    /// It has all keys of the share.
    pub is_copied: bool,
}
