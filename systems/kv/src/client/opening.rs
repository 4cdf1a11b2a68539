//! The messages by which a client gets the right to a table: one proof of each end. Sans-IO.

use longarm_rpc::Status;

use crate::clock::ClockReading;
use crate::error::KvError;
use crate::proof::{Nonce, TableSecret};
use crate::protocol::{ChallengeReply, ChallengeRequest, OpenReply, OpenTable, PROTOCOL, decode, encode};

/// A client that has been challenged.
pub(crate) struct TableOpening {
    table: String,
    secret: Option<TableSecret>,
    nonces: (Nonce, Nonce),
}

impl TableOpening {
    /// The first message: it asks for a challenge.
    pub(crate) fn ask(table: &str) -> Vec<u8> {
        let mut request = Vec::new();
        encode(&ChallengeRequest { protocol: PROTOCOL, table }, &[], &mut request);
        request
    }

    /// Answers a challenge. Returns the second message, too.
    pub(crate) fn answer(
        table: &str,
        secret: Option<&TableSecret>,
        challenge: &[u8],
    ) -> Result<(TableOpening, Vec<u8>), KvError> {
        let challenge = decode::<ChallengeReply>(challenge)?.0;
        let mut client_nonce = [0; 32];
        getrandom::fill(&mut client_nonce).map_err(|error| Status::internal(error.to_string()))?;
        let proof = match (secret, challenge.needs_proof) {
            (Some(secret), true) => secret.client_proof(table, &challenge.nonce, &client_nonce),
            (None, true) => return Err(KvError::NotAuthorized(format!("the table {table:?} has a secret"))),
            // A client with a secret wants the server that has it, too.
            (Some(_), false) => return Err(KvError::WrongServer),
            (None, false) => [0; 32],
        };
        let mut request = Vec::new();
        encode(&OpenTable { table, nonce: challenge.nonce, client_nonce, proof }, &[], &mut request);
        let nonces = (challenge.nonce, client_nonce);
        Ok((TableOpening { table: table.into(), secret: secret.cloned(), nonces }, request))
    }

    /// Takes the server's answer, and the times before the question and after the answer.
    pub(crate) fn finish(
        self,
        reply: &[u8],
        (asked_ns, answered_ns): (u64, u64),
    ) -> Result<(OpenReply, ClockReading), KvError> {
        let opened = decode::<OpenReply>(reply)?.0;
        let nonces = (&self.nonces.0, &self.nonces.1);
        if self.secret.is_some_and(|secret| !secret.is_server_proof(&self.table, nonces, &opened.proof)) {
            return Err(KvError::WrongServer);
        }
        let clock = ClockReading { asked_ns, server_ns: opened.server_ns, answered_ns };
        Ok((opened, clock))
    }
}
