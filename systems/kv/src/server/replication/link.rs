//! The connection to a member that gets records.

use std::time::Duration;

use cluster::MemberId;
use longarm_rpc::{Client, ClientOptions, Status, Way};
use replica::{BatchAck, HandOverAnswer, HandOverAsk, ReplicaBatch};

use crate::protocol::{GrantKey, decode, encode};
use crate::server::random::fill_random;
use crate::server::replication::core::Replication;
use crate::server::replication::passes::{is_answer_proof, own_proof};
use crate::server::replication::words::*;

/// The time that connecting may take, and each message before the first batch.
const CONNECT: Duration = Duration::from_secs(1);
/// The time after which a batch counts as lost. The primary wishes to go on without the member before.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time after which the answer to a hand-over counts as lost. The question comes again.
const HAND_OVER_PATIENCE: Duration = Duration::from_millis(200);

/// A connection over which a member has proved who it is.
pub(super) struct PeerLink {
    rpc: Client,
    pass: GrantKey,
    request: Vec<u8>,
}

impl PeerLink {
    /// Connects to a member, and proves who we are.
    pub(super) fn open(replication: &Replication, address: &str, purpose: LinkPurpose) -> Result<PeerLink, Status> {
        // A batch is a WRITE into the backup's ring. Its completion wakes a backup that sleeps.
        let options = ClientOptions { way: Some(Way::Immediate), connect_timeout: CONNECT, ..ClientOptions::default() };
        let any = ClientOptions { way: None, ..options.clone() };
        let mut rpc = Client::connect(address, &options).or_else(|_| Client::connect(address, &any))?;
        let secret = replication.secret.as_ref();
        let greeting = rpc.call(GREET, &[], CONNECT)?;
        let GreetReply { nonce, needs_proof } = decode(&greeting)?.0;
        if needs_proof != secret.is_some() {
            return Err(Status::unauthenticated("one of two members has a secret of the cluster, the other has none"));
        }
        let mut own_nonce = [0; 32];
        fill_random(&mut own_nonce)?;
        let join = JoinRequest {
            protocol: PROTOCOL,
            from: replication.right.member().clone(),
            purpose,
            tables: replication.tables.iter().map(|table| table.name.clone()).collect(),
            nonce,
            own_nonce,
            proof: own_proof(secret, (&nonce, &own_nonce)),
        };
        let mut request = Vec::new();
        encode(&join, &[], &mut request);
        let joined = rpc.call(JOIN, &request, CONNECT)?;
        let JoinReply { pass, proof } = decode(&joined)?.0;
        if !is_answer_proof(secret, (&nonce, &own_nonce), &proof) {
            return Err(Status::unauthenticated(
                "the other member did not prove that it has the secret of the cluster",
            ));
        }
        Ok(PeerLink { rpc, pass, request })
    }

    /// Sends a batch, and waits for the answer.
    pub(super) fn send(&mut self, batch: &ReplicaBatch) -> Result<BatchAck, Status> {
        let head = &batch.head;
        let to: MemberId = head.to.clone();
        let head = BatchRequest { pass: self.pass, to, epoch: head.epoch, stream: head.stream, offset: head.offset };
        self.request.clear();
        encode(&head, &[&batch.bytes], &mut self.request);
        let reply = self.rpc.call(BATCH, &self.request, PATIENCE)?;
        let BatchReply { received, applied } = decode(&reply)?.0;
        Ok(BatchAck { received, applied })
    }

    /// Tells the front door of a table messages.
    pub(super) fn tell(&mut self, table: u16, messages: &[u8]) -> Result<(), Status> {
        self.request.clear();
        encode(&MessageRequest { pass: self.pass, table }, &[messages], &mut self.request);
        self.rpc.call(MESSAGES, &self.request, PATIENCE).map(drop)
    }

    /// Asks a former primary for a share.
    pub(super) fn ask(&mut self, former: &MemberId, ask: HandOverAsk) -> Result<HandOverAnswer, Status> {
        let question = HandOverRequest { pass: self.pass, to: former.clone(), from: ask.from, since: ask.since };
        self.request.clear();
        encode(&question, &[], &mut self.request);
        let reply = self.rpc.call(HAND_OVER, &self.request, HAND_OVER_PATIENCE)?;
        let HandOverReply { in_step } = decode(&reply)?.0;
        Ok(in_step.map_or(HandOverAnswer::NotYet, |in_step| HandOverAnswer::Released { in_step }))
    }
}
