//! Methods for other members, and those that tell clients and people about this one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use longarm_rpc::{Methods, Status};
use replica::BatchHead;

use crate::clock::now_ns;
use crate::protocol::{decode, encode};
use crate::server::durable;
use crate::server::replication::core::Replication;
use crate::server::replication::passes::{answer_proof, is_own_proof};
use crate::server::replication::store::BackupTables;
use crate::server::replication::words::*;

type Handler = fn(&Replication, &[u8], &mut Vec<u8>) -> Result<(), Status>;

/// The service's methods.
pub(crate) fn replica_methods(replication: &Arc<Replication>) -> Methods {
    let all: [(_, Handler); 8] = [
        (GREET, Replication::greet),
        (JOIN, Replication::join),
        (BATCH, Replication::batch),
        (HAND_OVER, Replication::hand_over),
        (MESSAGES, Replication::take_messages),
        (ORDER, Replication::order),
        (STANDING, Replication::tell_standing),
        (STATUS, Replication::tell_status),
    ];
    let own = replication.own.as_ref().map(|own| Arc::clone(&own.journal));
    all.into_iter().fold(Methods::new(SERVICE), |methods, (method, handler)| {
        let replication = Arc::clone(replication);
        let run = move |request: &[u8], reply: &mut Vec<u8>| handler(&replication, request, reply);
        match own.as_ref().filter(|_| method == BATCH) {
            // A primary's answers wait for the disks of its backups.
            Some(journal) => durable::deferred(methods, method, journal, run),
            None => methods.direct(method, run),
        }
    })
}

impl Replication {
    fn greet(&self, _: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let greeting = GreetReply { nonce: self.passes.challenge()?, needs_proof: self.secret.is_some() };
        encode(&greeting, &[], reply);
        Ok(())
    }

    fn join(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, _): (JoinRequest, _) = decode(request)?;
        if request.protocol != PROTOCOL {
            let words = format!("the member speaks version {}, this one {PROTOCOL}", request.protocol);
            return Err(Status::invalid_argument(words));
        }
        let nonces = (&request.nonce, &request.own_nonce);
        if !self.passes.take_challenge(nonces.0) || !is_own_proof(self.secret.as_ref(), nonces, &request.proof) {
            return Err(Status::unauthenticated("the member did not prove that it has the secret of the cluster"));
        }
        if !request.tables.iter().eq(self.tables.iter().map(|table| &table.name)) {
            let own: Vec<&str> = self.tables.iter().map(|table| &*table.name).collect();
            let words = format!("the member has the tables {:?}, this one {own:?}", request.tables);
            return Err(Status::invalid_argument(words));
        }
        let proof = answer_proof(self.secret.as_ref(), nonces);
        encode(&JoinReply { pass: self.passes.admit(request.from, request.purpose)?, proof }, &[], reply);
        Ok(())
    }

    fn order(&self, request: &[u8], _: &mut Vec<u8>) -> Result<(), Status> {
        let (OrderRequest { order, nonce, own_nonce, proof }, _) = decode(request)?;
        let nonces = (&nonce, &own_nonce);
        if !self.passes.take_challenge(nonces.0) || !is_own_proof(self.secret.as_ref(), nonces, &proof) {
            return Err(Status::unauthenticated("the operator did not prove to have the secret of the cluster"));
        }
        log::info!("an operator orders {order:?}");
        self.right.order(&order)
    }

    fn batch(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (BatchRequest { pass, to, epoch, stream, offset }, bytes) = decode(request)?;
        let head = BatchHead { from: self.passes.find(&pass)?, to, epoch, stream, offset };
        if self.is_stopping.load(Ordering::Acquire) {
            return Err(Status::unavailable("the server is ending"));
        }
        // A deposed primary is refused as early as this member can know.
        self.follow();
        let taken = self.receiver.lock().take(&head, bytes, &mut BackupTables { replication: self });
        let ack = taken.map_err(|refusal| Status::failed_precondition(refusal.to_string()))?;
        encode(&BatchReply { received: ack.received, applied: ack.applied }, &[], reply);
        Ok(())
    }

    fn tell_standing(&self, _: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (epoch, until_ns, safe) = self.standing();
        encode(&StandingReply { server_ns: now_ns(), epoch, until_ns, safe }, &[], reply);
        Ok(())
    }

    fn tell_status(&self, _: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        encode(&self.status(), &[], reply);
        Ok(())
    }

    /// The state of the member, for people.
    pub(crate) fn status(&self) -> MemberStatus {
        let until_ns = self.right.until_ns();
        let sender = self.sender();
        let lag = |lag: replica::ReplicaLag| MemberLag {
            name: lag.member.name,
            from: lag.from,
            bytes: lag.bytes,
            is_copied: lag.is_copied,
        };
        MemberStatus {
            member: self.right.member().clone(),
            epoch: sender.roles().epoch(),
            term_left_ns: until_ns.saturating_sub(now_ns()),
            last: sender.last(),
            settled: sender.settled(),
            lags: sender.lags().into_iter().map(lag).collect(),
        }
    }
}
