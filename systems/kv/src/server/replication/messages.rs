//! Messages between the front doors of all members: each comes once or not at all, and those of one sender in their order.
//!
//! ```text
//!  door ── send ──► a queue for each other member ── its thread, by RPC ──► inbox of the same table there ── bell ──► door
//! ```

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster::{ClusterConfig, MemberId};
use longarm_rpc::Status;
use rustix::event::{EventfdFlags, eventfd};

use crate::protocol::decode;
use crate::server::replication::core::Replication;
use crate::server::replication::link::PeerLink;
use crate::server::replication::mail::MOST_MESSAGE_BYTES;
use crate::server::replication::words::{LinkPurpose, MessageRequest};

/// The pause before a member is connected to again.
const PAUSE: Duration = Duration::from_millis(50);

/// Threads that send messages, one for each other member.
#[derive(Default)]
pub(super) struct MailThreads {
    /// Of the configuration that they are for.
    epoch: u64,
    threads: BTreeMap<MemberId, JoinHandle<()>>,
}

impl MailThreads {
    /// Has a thread for each other member.
    pub(super) fn follow(&mut self, replication: &Arc<Replication>) {
        // One that has ended may be wanted again: its member was away for a moment.
        let has_ended = self.threads.values().any(JoinHandle::is_finished);
        let is_news = |config: &Arc<ClusterConfig>| has_ended || config.epoch != self.epoch;
        let Some(config) = replication.right.config().filter(is_news) else { return };
        let me = replication.right.member();
        let members: Vec<MemberId> =
            config.members.iter().map(|member| &member.id).filter(|id| *id != me).cloned().collect();
        replication.mail.follow(&members);
        self.threads.retain(|_, thread| !thread.is_finished());
        self.epoch = config.epoch;
        for id in members {
            if self.threads.contains_key(&id) {
                continue;
            }
            let (replication, to) = (Arc::clone(replication), id.clone());
            let thread = thread::Builder::new().name("kv-mail".into()).spawn(move || send_all(&replication, &to));
            match thread {
                Ok(thread) => drop(self.threads.insert(id, thread)),
                Err(error) => {
                    log::error!("no thread for the messages to {}: {error}", id.name);
                    // Again at the next look.
                    self.epoch = 0;
                }
            }
        }
    }

    pub(super) fn join(self) {
        self.threads.into_values().for_each(|thread| drop(thread.join()));
    }
}

fn send_all(replication: &Replication, to: &MemberId) {
    let mut link: Option<PeerLink> = None;
    while !replication.has_ended()
        && let Some(batch) = replication.mail.next(to)
    {
        let Some((table, _)) = batch.first() else { continue };
        let mut bytes = Vec::new();
        for (_, message) in &batch {
            bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
            bytes.extend_from_slice(message);
        }
        let connected = link
            .take()
            .map_or_else(|| PeerLink::open(replication, &replication.address_of(to)?, LinkPurpose::Messages), Ok);
        let sent = connected.and_then(|mut connected| connected.tell(*table, &bytes).map(|()| connected));
        match sent {
            Ok(connected) => link = Some(connected),
            Err(status) => {
                log::debug!("messages to {}: {status}", to.name);
                replication.mail.lose(batch.len());
                thread::sleep(PAUSE);
            }
        }
    }
}

impl Replication {
    /// Messages of another member have come.
    pub(super) fn take_messages(&self, request: &[u8], _: &mut Vec<u8>) -> Result<(), Status> {
        let (MessageRequest { pass, table }, messages) = decode(request)?;
        self.passes.find(&pass)?;
        self.mail.deliver(table, messages)
    }
}

/// Messages between the front doors of one table at all members of a cluster with backups. Each comes once, or not at all if a member
/// fails or is too slow; those of one sender come in their order.
pub struct MemberMessages {
    replication: Arc<Replication>,
    table: u16,
    bell: Arc<OwnedFd>,
}

impl MemberMessages {
    /// The messages of the table with that number. One door at a time has them.
    pub(crate) fn open(replication: &Arc<Replication>, table: u16) -> std::io::Result<MemberMessages> {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        replication.mail.open(table, &bell);
        Ok(MemberMessages { replication: Arc::clone(replication), table, bell })
    }

    /// Sends a message to all other members. It does not wait for them. Returns false if the message is longer than
    /// [`MOST_MESSAGE_BYTES`].
    pub fn send(&self, message: &[u8]) -> bool {
        if message.len() > MOST_MESSAGE_BYTES {
            return false;
        }
        self.replication.mail.send(self.table, &message.into());
        true
    }

    /// Readable when messages have come.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The messages that have come.
    pub fn take(&self) -> Vec<Arc<[u8]>> {
        let mut count = [0; 8];
        // Empty: another call has read it.
        let _ = rustix::io::read(&*self.bell, &mut count);
        self.replication.mail.take(self.table, &self.bell).collect()
    }

    /// Messages of all tables to and from this member that were lost since the server started.
    pub fn lost(&self) -> u64 {
        self.replication.mail.lost()
    }
}

impl Drop for MemberMessages {
    fn drop(&mut self) {
        self.replication.mail.close(self.table, &self.bell);
    }
}

impl std::fmt::Debug for MemberMessages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemberMessages(table {})", self.table)
    }
}
