//! Proofs between members: the same secret, two nonces, and then a secret number that stands in each batch.

use std::collections::VecDeque;

use cluster::MemberId;
use longarm_rpc::Status;
use parking_lot::Mutex;

use crate::proof::{Nonce, TableSecret};
use crate::protocol::GrantKey;
use crate::server::random::fill_random;
use crate::server::replication::words::LinkPurpose;

/// The name in proofs, beside those of tables. No table has it: it is empty.
const NAME: &str = "";
/// Challenges and passes at a time; the oldest make way.
const MOST: usize = 1024;

/// Members that have proved who they are.
#[derive(Default)]
pub(super) struct Passes {
    challenges: Mutex<VecDeque<Nonce>>,
    passes: Mutex<VecDeque<(GrantKey, MemberId, LinkPurpose)>>,
}

impl Passes {
    /// A nonce for a member to answer.
    pub(super) fn challenge(&self) -> Result<Nonce, Status> {
        let mut nonce = [0; 32];
        fill_random(&mut nonce)?;
        keep(&mut self.challenges.lock(), nonce);
        Ok(nonce)
    }

    /// Takes a nonce back. False if it is none of ours, or was taken before.
    pub(super) fn take_challenge(&self, nonce: &Nonce) -> bool {
        let mut challenges = self.challenges.lock();
        let at = challenges.iter().position(|other| other == nonce);
        at.and_then(|at| challenges.remove(at)).is_some()
    }

    /// A pass for a link of a member. It replaces that of the member's last link for the same purpose.
    pub(super) fn admit(&self, member: MemberId, purpose: LinkPurpose) -> Result<GrantKey, Status> {
        let mut pass = [0; 16];
        fill_random(&mut pass)?;
        let mut passes = self.passes.lock();
        passes.retain(|(_, other, for_what)| *other != member || *for_what != purpose);
        keep(&mut passes, (pass, member, purpose));
        Ok(pass)
    }

    /// The member with a pass.
    pub(super) fn find(&self, pass: &GrantKey) -> Result<MemberId, Status> {
        let passes = self.passes.lock();
        let found = passes.iter().find(|(other, ..)| other == pass).map(|(_, member, _)| member.clone());
        found.ok_or_else(|| Status::aborted("no such pass: the member has to join again"))
    }
}

fn keep<T>(list: &mut VecDeque<T>, one: T) {
    if list.len() >= MOST {
        list.pop_front();
    }
    list.push_back(one);
}

/// The proof of the member that joins: it has the secret, if there is one.
pub(crate) fn own_proof(secret: Option<&TableSecret>, nonces: (&Nonce, &Nonce)) -> Nonce {
    secret.map_or([0; 32], |secret| secret.client_proof(NAME, nonces.0, nonces.1))
}

pub(super) fn is_own_proof(secret: Option<&TableSecret>, nonces: (&Nonce, &Nonce), proof: &Nonce) -> bool {
    secret.is_none_or(|secret| secret.is_client_proof(NAME, nonces, proof))
}

/// The proof of the member that is joined.
pub(super) fn answer_proof(secret: Option<&TableSecret>, nonces: (&Nonce, &Nonce)) -> Nonce {
    secret.map_or([0; 32], |secret| secret.server_proof(NAME, nonces.0, nonces.1))
}

pub(super) fn is_answer_proof(secret: Option<&TableSecret>, nonces: (&Nonce, &Nonce), proof: &Nonce) -> bool {
    secret.is_none_or(|secret| secret.is_server_proof(NAME, nonces, proof))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The link that asks for shares must not end the stream of records of the same member.
    #[test]
    fn links_for_records_and_for_moves_have_passes_of_their_own() {
        let (passes, member) = (Passes::default(), MemberId { name: "a".into(), incarnation: 1 });
        let admit = |purpose| passes.admit(member.clone(), purpose).unwrap();
        let (records, moves) = (admit(LinkPurpose::Records), admit(LinkPurpose::Moves));
        assert!(passes.find(&records).is_ok() && passes.find(&moves).is_ok());
        let again = admit(LinkPurpose::Moves);
        assert!(passes.find(&records).is_ok() && passes.find(&moves).is_err() && passes.find(&again).is_ok());
    }
}
