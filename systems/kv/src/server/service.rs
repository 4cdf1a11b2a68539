//! The methods of the service: from messages to tables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cluster::NotServing;
use longarm_rpc::{Method, Methods, Response, Status};
use remote::WriterPass;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::clock::now_ns;
use crate::protocol::*;
use crate::server::durable::{DataDirectory, deferred, wait_for_disk};
use crate::server::grants::{Grants, TableGrant};
use crate::server::ordered::range_of;
use crate::server::placement::Placement;
use crate::server::replication::{self, Replication};
use crate::server::served::ServedTable;
use crate::server::slots::refusal;
use crate::server::table::WhenFull;
use crate::server::uploads::Uploads;

/// Keys that a SCAN tells at most in one answer.
const MOST_KEYS: u32 = 10_000;
/// Processors' caches like small answers of GET best; the head of one has at most so many bytes.
const HEAD_ROOM: usize = 80;

/// Everything that handlers need.
pub(crate) struct KvService {
    pub(crate) tables: Vec<Arc<ServedTable>>,
    pub(crate) grants: Arc<Grants>,
    pub(crate) uploads: Uploads,
    pub(crate) data_port: u16,
    /// The tables on disk, if they are kept there.
    pub(crate) durable: Option<DataDirectory>,
    /// The slots that this server serves.
    pub(crate) placement: Placement,
}

/// Methods whose answers say nothing about values. The others may tell of a change that is not on disk yet.
const WITHOUT_VALUES: [Method; 10] = [CHALLENGE, OPEN, CLOSE, ATTACH, REPORT, FIGURES, BEGIN, PIECE, CLIENTS, REVOKE];

type Handler = fn(&KvService, &[u8], &mut Vec<u8>) -> Result<(), Status>;

/// The methods that any thread carries out.
const DIRECT: [(Method, Handler); 17] = [
    (CHALLENGE, KvService::challenge),
    (OPEN, KvService::open),
    (CLOSE, KvService::close),
    (ATTACH, KvService::attach),
    (GET, KvService::get),
    (PUT, KvService::put),
    (DELETE, KvService::delete),
    (ADD, KvService::add),
    (EXPIRE, KvService::expire),
    (SCAN, KvService::scan),
    (RANGE, KvService::range),
    (REPORT, KvService::report),
    (FIGURES, KvService::figures),
    (BEGIN, KvService::begin),
    (PIECE, KvService::piece),
    (CLIENTS, KvService::clients),
    (REVOKE, KvService::revoke),
];

/// The service's methods.
pub(crate) fn methods(service: &Arc<KvService>) -> Methods {
    let mut methods = Methods::new(SERVICE);
    let journal = service.durable.as_ref().filter(|durable| durable.is_strict()).map(|durable| &durable.journal);
    let backups = service.placement.replication();
    for (method, handler) in DIRECT {
        let service = Arc::clone(service);
        let run = move |request: &[u8], reply: &mut Vec<u8>| {
            service.placement.check(method, request)?;
            handler(&service, request, reply)
        };
        let tells_values = !WITHOUT_VALUES.contains(&method);
        methods = match (journal.filter(|_| tells_values), backups.filter(|_| tells_values)) {
            (_, Some(backups)) => replication::deferred(methods, method, backups, run),
            (Some(journal), None) => deferred(methods, method, journal, run),
            (None, None) => methods.direct(method, run),
        };
    }
    // Copies up to 512 MiB: not on a thread that others wait for.
    let (service, journal, backups) = (Arc::clone(service), journal.cloned(), backups.cloned());
    methods.blocking(COMMIT, move |request| {
        let mut reply = Vec::new();
        let done = match &backups {
            None => service.commit(request.get_ref(), &mut reply),
            Some(backups) => service.commit_replicated(backups, request.get_ref(), &mut reply),
        };
        if let Some(journal) = &journal {
            wait_for_disk(journal)?;
        }
        done.map(|()| Response::new(reply.into()))
    })
}

/// The keys that a test lets pass, each behind its length.
fn keep_keys(mut keys: &[u8], passes: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut kept = Vec::with_capacity(keys.len());
    while let Some((key, rest)) = split_framed(keys) {
        if passes(key) {
            kept.extend_from_slice(&keys[..keys.len() - rest.len()]);
        }
        keys = rest;
    }
    kept
}

/// Appends an answer without bytes behind it.
fn answer(head: &impl Serialize, reply: &mut Vec<u8>) -> Result<(), Status> {
    encode(head, &[], reply);
    Ok(())
}

impl KvService {
    fn table(&self, name: &str) -> Result<&Arc<ServedTable>, Status> {
        let found = self.tables.iter().find(|table| table.name == name);
        found.ok_or_else(|| Status::not_found(format!("the server has no table {name:?}")))
    }

    /// The last change that is on disk, if readers have to know. Those of a member with backups have another number to mind, which is safe on
    /// its disk, too.
    fn durable(&self) -> Option<u64> {
        let durable = self.durable.as_ref().filter(|_| self.placement.replication().is_none());
        durable.filter(|durable| durable.is_strict()).map(|durable| durable.journal.durable())
    }

    fn challenge(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, _): (ChallengeRequest<'_>, _) = decode(request)?;
        if request.protocol != PROTOCOL {
            let words = format!("the client speaks version {}, the server {PROTOCOL}", request.protocol);
            return Err(Status::invalid_argument(words));
        }
        let needs_proof = self.table(request.table)?.options.secret.is_some();
        answer(&ChallengeReply { nonce: self.grants.challenge()?, needs_proof }, reply)
    }

    fn open(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, _): (OpenTable<'_>, _) = decode(request)?;
        let table = self.table(request.table)?;
        if !self.grants.take_challenge(&request.nonce) {
            return Err(Status::unauthenticated("the challenge is too old, or is none of this server"));
        }
        let nonces = (&request.nonce, &request.client_nonce);
        let proof = match &table.options.secret {
            None => [0; 32],
            Some(secret) if secret.is_client_proof(request.table, nonces, &request.proof) => {
                secret.server_proof(request.table, nonces.0, nonces.1)
            }
            Some(_) => return Err(Status::unauthenticated("the client did not prove that it has the table's secret")),
        };
        let (grant, client) = self.grants.grant(table)?;
        let opened = OpenReply {
            grant,
            client,
            proof,
            layout: table.options.layout.name().into(),
            data_port: self.data_port,
            tag_seed: table.tag_seed,
            server_ns: now_ns(),
            evicts: table.options.when_full == WhenFull::Evict,
            durable: self.durable(),
            writable: table.options.writable,
            member: self.placement.replication().map(|backups| backups.right.member().clone()),
        };
        answer(&opened, reply)
    }

    fn close(&self, request: &[u8], _: &mut Vec<u8>) -> Result<(), Status> {
        let (request, _): (GrantRequest, _) = decode(request)?;
        self.grants.close(&request.grant);
        Ok(())
    }

    fn attach(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, _): (AttachRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        let key = grant.window(Some(request.attempt)).map(|(key, _)| key.to_bytes().to_vec());
        let right = |WriterPass { holder, copy_at, copy_bytes }| WriterRight { holder, copy_at, copy_bytes };
        answer(&AttachReply { key, writer: grant.pass(request.attempt).map(right) }, reply)
    }

    fn get(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, key): (GetRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        let now_ns = now_ns();
        // The value goes where the answer's head leaves it, so that it is copied once.
        reply.resize(HEAD_ROOM, 0);
        let mut found = grant.table.writer.lock().get(key, request.from, now_ns, reply)?;
        if let (Some(wanted), Some(value)) = (request.version, found)
            && wanted != value.version
        {
            reply.truncate(HEAD_ROOM);
            found = Some(FoundValue { value_bytes: u64::MAX, ..value });
        }
        let (epoch, safe) = self.placement.replication().map_or((0, 0), |backups| backups.safe());
        let durable = self.durable().unwrap_or_default().max(safe);
        let head = GetReply { server_ns: now_ns, found, durable, epoch };
        let head = postcard::to_slice(&head, &mut reply[..HEAD_ROOM]).map(|head| head.len());
        let head_bytes = head.map_err(|error| Status::internal(error.to_string()))?;
        reply.copy_within(..head_bytes, HEAD_ROOM - head_bytes);
        reply.drain(..HEAD_ROOM - head_bytes);
        Ok(())
    }

    fn put(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, rest): (PutRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        let split = rest.split_at_checked(request.key_bytes as usize);
        let (key, value) = split.ok_or_else(|| Status::invalid_argument("the key is longer than the message"))?;
        let mut writer = grant.table.writer.lock();
        answer(&writer.put(key, value, request.condition, request.expiry, now_ns())?, reply)
    }

    fn delete(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, key): (DeleteRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        let deleted = grant.table.writer.lock().delete(key, request.version, now_ns())?;
        answer(&deleted, reply)
    }

    fn add(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, key): (AddRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        let value = grant.table.writer.lock().add(key, request.add, now_ns())?;
        answer(&AddReply { value }, reply)
    }

    fn expire(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, key): (ExpireRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        let server_ns = now_ns();
        let outcome = grant.table.writer.lock().expiry(key, request.expiry, server_ns)?;
        answer(&ExpireReply { server_ns, outcome }, reply)
    }

    fn scan(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, prefix): (ScanRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        let (mut keys, count) = (Vec::new(), request.count.clamp(1, MOST_KEYS) as usize);
        let next = grant.table.writer.lock().scan(request.cursor, count, prefix, now_ns(), &mut keys);
        if let Some(backups) = self.placement.replication() {
            // The others are here as those of a backup.
            let serves = backups.served_keys().ok_or_else(|| refusal(&NotServing::NoTerm))?;
            keys = keep_keys(&keys, serves);
        }
        encode(&ScanReply { next }, &[&keys], reply);
        Ok(())
    }

    fn range(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, bounds): (RangeRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        let split = bounds.split_at_checked(request.first_bytes as usize);
        let (first, end) = split.ok_or_else(|| Status::invalid_argument("the key is longer than the message"))?;
        let range = range_of(first, request.has_end.then_some(end));
        let (server_ns, mut items) = (now_ns(), Vec::new());
        let told = grant.table.writer.lock().range(&range, request.limit, server_ns, &mut items)?;
        encode(&RangeReply { server_ns, items: told.items, next: told.next.as_deref() }, &[&items], reply);
        Ok(())
    }

    fn report(&self, request: &[u8], _: &mut Vec<u8>) -> Result<(), Status> {
        let (request, tags): (ReportRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        grant.table.counts.reported_gets.fetch_add(request.gets, Ordering::Relaxed);
        let tags = tags.chunks_exact(8).map(|tag| tag.try_into().map_or(0, u64::from_le_bytes));
        grant.table.writer.lock().touch(tags, now_ns());
        Ok(())
    }

    fn figures(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, _): (GrantRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        let mut figures = grant.table.figures();
        let others = self.grants.of_table(&grant.table);
        figures.clients = others.iter().filter(|grant| !grant.is_revoked()).count() as u64;
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        figures.server_cpu_ns = cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64;
        figures.server_ns = now_ns();
        answer(&figures, reply)
    }

    fn begin(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, key): (BeginRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        grant.table.writer.lock().check_lengths(key, request.value_bytes)?;
        let upload = self.uploads.begin(request.grant, key, request.value_bytes, now_ns())?;
        answer(&BeginReply { upload }, reply)
    }

    fn piece(&self, request: &[u8], _: &mut Vec<u8>) -> Result<(), Status> {
        let (request, bytes): (PieceRequest, _) = decode(request)?;
        self.grants.find(&request.grant)?;
        self.uploads.piece((request.grant, request.upload), request.from, bytes, now_ns())
    }

    /// Carries out a request of any method.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn handle(&self, method: Method, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        match DIRECT.into_iter().find(|(other, _)| *other == method) {
            Some((_, handler)) => handler(self, request, reply),
            None => self.commit(request, reply),
        }
    }

    fn commit(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, _): (CommitRequest, _) = decode(request)?;
        let grant = self.grants.find(&request.grant)?;
        let upload = self.uploads.take((request.grant, request.upload))?;
        let mut upload = upload.lock();
        if !upload.is_whole() {
            return Err(Status::out_of_range("pieces of the value are missing"));
        }
        let key = std::mem::take(&mut upload.key);
        let mut writer = grant.table.writer.lock();
        let stored = writer.put_stored(&key, &mut upload.stored, request.condition, request.expiry, now_ns())?;
        answer(&stored, reply)
    }

    /// The same at a member with backups.
    fn commit_replicated(&self, backups: &Replication, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (head, _): (CommitRequest, _) = decode(request)?;
        let key = self.uploads.key((head.grant, head.upload))?;
        let run = || self.commit(request, reply);
        let (number, done) = replication::guarded(backups, Some(&key), run)?;
        replication::settled(backups, number)?;
        done
    }

    fn clients(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, _): (GrantRequest, _) = decode(request)?;
        let (grant, now) = (self.grants.find(&request.grant)?, now_ns());
        let others = self.grants.of_table(&grant.table);
        let known = |grant: &Arc<TableGrant>| TableClient {
            client: grant.client,
            address: grant.window(None).map(|(_, peer)| peer.to_string()),
            idle_ns: grant.idle_ns(now),
        };
        let mut clients: Vec<TableClient> = others.iter().filter(|grant| !grant.is_revoked()).map(known).collect();
        clients.sort_unstable_by_key(|client| client.client);
        answer(&ClientsReply { clients }, reply)
    }

    fn revoke(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (request, _): (RevokeRequest, _) = decode(request)?;
        let own = self.grants.find(&request.grant)?;
        let is_meant = |grant: &&Arc<TableGrant>| match request.client {
            None => grant.client != own.client,
            Some(client) => grant.client == client,
        };
        let others = self.grants.of_table(&own.table);
        let revoked = others.iter().filter(is_meant).filter(|grant| grant.revoke()).count() as u64;
        answer(&RevokeReply { revoked }, reply)
    }
}
