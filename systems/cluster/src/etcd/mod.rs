//! The coordinator in etcd, by its API version 3 (gRPC).
//!
//! ```text
//!  PREFIX/config                       the configuration, JSON
//!  PREFIX/members/NAME/INCARNATION     the last beat of a member, JSON
//! ```
//! A revision is etcd's `mod_revision`. Each request is one transaction, which etcd executes as a whole. Etcd's leases are not used:
//! see `docs/cluster.md`.

mod messages;

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_stream::StreamExt;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{IntoRequest, Streaming};
use tonic_prost::ProstCodec;

use crate::config::{ClusterConfig, MemberId};
use crate::coordinator::{
    ClusterPicture, Coordinator, CoordinatorError, CoordinatorReply, CoordinatorRequest, MemberBeat, Revision,
};

use messages::*;

/// The prefix of keys without another one.
const PREFIX: &str = "longarm";
/// The pause after a watch has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// A coordinator in etcd. It connects when it is used, and again after etcd was away.
pub struct EtcdCoordinator {
    runtime: Runtime,
    channel: Channel,
    prefix: String,
    /// The configuration has changed.
    changed: Arc<Notify>,
}

impl EtcdCoordinator {
    /// A coordinator at `etcd://host:port[,host:port…][/prefix]`. All clusters that share an etcd need prefixes of their own;
    /// without one it is `longarm`.
    ///
    /// ```
    /// let coordinator = longarm_cluster::EtcdCoordinator::new("etcd://127.0.0.1:2379/shop");
    /// assert!(coordinator.is_ok());
    /// assert!(longarm_cluster::EtcdCoordinator::new("etcds://127.0.0.1:2379").is_err());
    /// ```
    ///
    /// # Errors
    /// It is no such URL, or the system refuses what a runtime of tokio needs. TLS and users of etcd are not there yet.
    pub fn new(url: &str) -> Result<EtcdCoordinator, CoordinatorError> {
        let words = || error(format!("{url:?} is not of the form etcd://host:port[,host:port…][/prefix]"));
        let rest = url.strip_prefix("etcd://").ok_or_else(words)?;
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, PREFIX));
        let prefix = prefix.trim_matches('/');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if hosts.contains('@') || !prefix.chars().all(is_plain) {
            return Err(words());
        }
        let endpoint = |host: &str| {
            let (name, port) = host.rsplit_once(':')?;
            (!name.is_empty() && port.parse::<u16>().is_ok()).then_some(())?;
            Some(Endpoint::from_shared(format!("http://{host}")).ok()?.connect_timeout(Duration::from_secs(2)))
        };
        let endpoints: Option<Vec<Endpoint>> = hosts.split(',').map(endpoint).collect();
        let endpoints = endpoints.ok_or_else(words)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(error)?;
        let entered = runtime.enter();
        let channel = match &endpoints[..] {
            [one] => one.connect_lazy(),
            _ => Channel::balance_list(endpoints.into_iter()),
        };
        drop(entered);
        let prefix = if prefix.is_empty() { PREFIX } else { prefix };
        let made = EtcdCoordinator { runtime, channel, prefix: format!("/{prefix}"), changed: Arc::default() };
        // It runs while this coordinator calls or waits.
        made.runtime.spawn(watch(made.channel.clone(), made.config_key(), Arc::clone(&made.changed)));
        Ok(made)
    }

    fn unary<Q, R>(&mut self, path: &'static str, request: Q, timeout: Duration) -> Result<R, CoordinatorError>
    where
        Q: Message + Default + 'static,
        R: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        let exchange = async {
            grpc.ready().await.map_err(error)?;
            let codec = ProstCodec::<Q, R>::default();
            let reply = grpc.unary(request.into_request(), PathAndQuery::from_static(path), codec).await;
            Ok(reply.map_err(|status| error(status.message()))?.into_inner())
        };
        let within = async { tokio::time::timeout(timeout, exchange).await };
        self.runtime.block_on(within).unwrap_or_else(|_| Err(error(format!("no answer within {timeout:?}"))))
    }

    fn config_key(&self) -> Vec<u8> {
        format!("{}/config", self.prefix).into()
    }

    fn beat_key(&self, id: &MemberId) -> Vec<u8> {
        format!("{}/members/{}/{:016x}", self.prefix, id.name, id.incarnation).into()
    }

    /// The request for all keys: those between `PREFIX/` and `PREFIX0`, the byte after `/`.
    fn everything(&self) -> EtcdRange {
        EtcdRange { key: format!("{}/", self.prefix).into(), range_end: format!("{}0", self.prefix).into() }
    }

    fn transaction(&self, request: &CoordinatorRequest) -> TxnRequest {
        match request {
            CoordinatorRequest::Beat { beat, expected } => {
                let key = self.beat_key(&beat.member.id);
                let value = serde_json::to_vec(beat).unwrap_or_default();
                let everything = operation(RequestKind::Range(self.everything()));
                TxnRequest {
                    compare: vec![unchanged(key.clone(), *expected)],
                    success: vec![operation(RequestKind::Put(EtcdPut { key, value })), everything.clone()],
                    failure: vec![everything],
                }
            }
            CoordinatorRequest::Replace { config, expected, deposed } => {
                let key = self.config_key();
                let beats = deposed.iter().map(|(id, revision)| unchanged(self.beat_key(id), *revision));
                let gone =
                    deposed.iter().map(|(id, _)| operation(RequestKind::Delete(EtcdDelete { key: self.beat_key(id) })));
                let compare = [unchanged(key.clone(), *expected)].into_iter().chain(beats).collect();
                let put = operation(RequestKind::Put(EtcdPut { key, value: config.to_json() }));
                TxnRequest { compare, success: [put].into_iter().chain(gone).collect(), failure: Vec::new() }
            }
        }
    }

    /// The picture in etcd's answer. Beats that nobody can read count as absent.
    fn picture(&self, range: &EtcdPairs) -> Result<ClusterPicture, CoordinatorError> {
        let (mut picture, config_key) = (ClusterPicture::default(), self.config_key());
        for pair in &range.kvs {
            let revision = u64::try_from(pair.mod_revision).map_err(error)?;
            if pair.key == config_key {
                picture.config = Some((ClusterConfig::from_json(&pair.value).map_err(error)?, revision));
            } else if let Ok(beat) = serde_json::from_slice::<MemberBeat>(&pair.value)
                && self.beat_key(&beat.member.id) == pair.key
                && beat.member.check().is_ok()
            {
                picture.beats.push((beat, revision));
            }
        }
        Ok(picture)
    }
}

/// Watches the key of the configuration for ever. A change that it misses is found by the next beat.
async fn watch(channel: Channel, key: Vec<u8>, changed: Arc<Notify>) {
    loop {
        if let Ok(mut changes) = open_watch(channel.clone(), key.clone()).await {
            while let Ok(Some(response)) = changes.message().await {
                if response.canceled {
                    break;
                }
                if !response.events.is_empty() {
                    changed.notify_one();
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn open_watch(channel: Channel, key: Vec<u8>) -> Result<Streaming<WatchResponse>, CoordinatorError> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(error)?;
    // The stream of requests stays open: its end would end the watch.
    let create = WatchRequest { create: Some(WatchCreateRequest { key }) };
    let requests = tokio_stream::once(create).chain(tokio_stream::pending());
    let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
    let reply = grpc.streaming(tonic::Request::new(requests), PathAndQuery::from_static(WATCH), codec).await;
    Ok(reply.map_err(|status| error(status.message()))?.into_inner())
}

impl Coordinator for EtcdCoordinator {
    fn call(&mut self, request: &CoordinatorRequest, timeout: Duration) -> Result<CoordinatorReply, CoordinatorError> {
        let reply: TxnResponse = self.unary(TXN, self.transaction(request), timeout)?;
        match request {
            CoordinatorRequest::Replace { .. } => Ok(CoordinatorReply::Replaced(reply.succeeded)),
            CoordinatorRequest::Beat { beat, .. } => {
                let range = reply.responses.iter().find_map(|response| response.range.as_ref());
                let picture = self.picture(range.ok_or_else(|| error("an answer without keys"))?)?;
                let revision = reply.succeeded.then(|| picture.last_beat(&beat.member.id));
                Ok(CoordinatorReply::Beaten(revision, picture))
            }
        }
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        let changed = Arc::clone(&self.changed);
        self.runtime.block_on(async { tokio::time::timeout(timeout, changed.notified()).await.is_ok() })
    }

    fn look(&mut self, timeout: Duration) -> Result<ClusterPicture, CoordinatorError> {
        let reply: EtcdPairs = self.unary(RANGE, self.everything(), timeout)?;
        self.picture(&reply)
    }
}

impl std::fmt::Debug for EtcdCoordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EtcdCoordinator({})", self.prefix)
    }
}

fn operation(request: RequestKind) -> RequestOp {
    RequestOp { request: Some(request) }
}

/// The condition that a key has this revision; zero: that it is not there.
fn unchanged(key: Vec<u8>, revision: Revision) -> Compare {
    Compare { result: 0, target: 2, key, mod_revision: Some(i64::try_from(revision).unwrap_or(i64::MAX)) }
}

fn error(words: impl ToString) -> CoordinatorError {
    CoordinatorError(words.to_string())
}
