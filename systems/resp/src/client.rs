//! A client as the door knows it, without its connection.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use longarm_kv::KvVersion;

use crate::commands::table::RespCommand;
use crate::reply::RespReply;

/// The state of a client.
#[derive(Debug)]
pub(crate) struct RespClient {
    pub(crate) id: u64,
    pub(crate) address: SocketAddr,
    pub(crate) local_address: SocketAddr,
    pub(crate) name: Vec<u8>,
    pub(crate) library: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
    /// The user whose password it gave; `None` before that, if one is needed.
    pub(crate) user: Option<String>,
    pub(crate) since_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) last_command: &'static str,
    pub(crate) is_never_evicted: bool,
    pub(crate) reply: RespReply,
    pub(crate) wanted_replies: WantedReplies,
    /// Its replies leave when the server's backups have all changes up to this number.
    pub(crate) settles: u64,
    /// Its replies tell of changes that nobody can vouch for: none leaves any more.
    pub(crate) is_unknown: bool,
    /// Requests behind MULTI.
    pub(crate) transaction: Option<Transaction>,
    pub(crate) watched: Vec<WatchedKey>,
    /// A watched key was changed and put back, so its version does not tell.
    pub(crate) is_dirty: bool,
    pub(crate) channels: BTreeSet<Vec<u8>>,
    pub(crate) patterns: BTreeSet<Vec<u8>>,
    pub(crate) shard_channels: BTreeSet<Vec<u8>>,
    /// The connection ends when the replies are sent.
    pub(crate) is_leaving: bool,
    /// The connection ends now.
    pub(crate) is_killed: bool,
}

/// The replies that a client wants (`CLIENT REPLY`). Messages of channels come in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WantedReplies {
    /// All.
    #[default]
    All,
    /// None.
    None,
    /// All but that of the next command.
    AllButNext,
    /// All but that of this command.
    AllButThis,
}

/// Requests that wait for EXEC.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) requests: Vec<Vec<Vec<u8>>>,
    /// Bytes of all of them.
    pub(crate) bytes: usize,
    /// One of them was refused, so EXEC will be.
    pub(crate) is_broken: bool,
}

impl Transaction {
    /// The keys of all its requests.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.requests
            .iter()
            .filter_map(|request| Some((RespCommand::find(request.first()?)?, request)))
            .flat_map(|(command, request)| command.places_of_keys(request.len()).map(|place| request[place].as_slice()))
    }
}

/// A key, and its version when the client began to watch it.
#[derive(Debug)]
pub(crate) struct WatchedKey {
    pub(crate) key: Vec<u8>,
    pub(crate) version: Option<KvVersion>,
}

impl RespClient {
    pub(crate) fn new(
        id: u64,
        address: SocketAddr,
        local_address: SocketAddr,
        now_ns: u64,
        user: Option<String>,
    ) -> RespClient {
        RespClient {
            id,
            address,
            local_address,
            name: Vec::new(),
            library: Vec::new(),
            library_version: Vec::new(),
            user,
            since_ns: now_ns,
            last_ns: now_ns,
            last_command: "NULL",
            is_never_evicted: false,
            reply: RespReply::default(),
            wanted_replies: WantedReplies::All,
            settles: 0,
            is_unknown: false,
            transaction: None,
            watched: Vec::new(),
            is_dirty: false,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            shard_channels: BTreeSet::new(),
            is_leaving: false,
            is_killed: false,
        }
    }

    /// Channels and patterns.
    pub(crate) fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// A client of RESP2 that has subscribed takes few commands.
    pub(crate) fn only_listens(&self) -> bool {
        !self.reply.is_resp3 && self.subscriptions() + self.shard_channels.len() > 0
    }

    /// Its line in `CLIENT LIST`.
    pub(crate) fn describe(&self, now_ns: u64) -> String {
        let seconds = |since_ns: u64| now_ns.saturating_sub(since_ns) / 1_000_000_000;
        let flags = [(self.transaction.is_some(), 'x'), (self.subscriptions() > 0, 'P'), (self.is_never_evicted, 'e')];
        let mut flags: String = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| *flag).collect();
        if flags.is_empty() {
            flags.push('N');
        }
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db=0 sub={} psub={} ssub={} multi={} \
             cmd={} user={} lib-name={} lib-ver={} resp={}",
            self.id,
            self.address,
            self.local_address,
            String::from_utf8_lossy(&self.name),
            seconds(self.since_ns),
            seconds(self.last_ns),
            self.channels.len(),
            self.patterns.len(),
            self.shard_channels.len(),
            self.transaction.as_ref().map_or(-1, |transaction| transaction.requests.len() as i64),
            self.last_command,
            self.user.as_deref().unwrap_or("(none)"),
            String::from_utf8_lossy(&self.library),
            String::from_utf8_lossy(&self.library_version),
            if self.reply.is_resp3 { 3 } else { 2 },
        )
    }
}
