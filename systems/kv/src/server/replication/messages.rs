//! Messages between the front doors of all members: each comes once or not at all, and those of one sender in their order.
//!
//! ```text
//!  door ── send ──► a queue for each other member ── its thread, by RPC ──► inbox of the same table there ── bell ──► door
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster::MemberId;
use longarm_rpc::Status;
use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, eventfd};

use crate::protocol::{PIECE_BYTES, decode};
use crate::server::replication::core::Replication;
use crate::server::replication::link::PeerLink;
use crate::server::replication::words::{LinkPurpose, MessageRequest};

/// Bytes that wait for one member, or for a door, at most. Beyond, messages are lost.
const MOST_BYTES: usize = 64 << 20;
/// Bytes of one request, a single long message aside.
const AT_ONCE: usize = 64 << 10;
/// The longest time for which a thread does not look by itself.
const REST: Duration = Duration::from_millis(100);
/// The pause before a member is connected to again.
const PAUSE: Duration = Duration::from_millis(50);

/// The length of a message at most, in bytes.
pub const MOST_MESSAGE_BYTES: usize = PIECE_BYTES - 1024;

/// Messages in a row, with the number of the table of each.
#[derive(Default)]
struct MessageQueue {
    messages: VecDeque<(u16, Arc<[u8]>)>,
    bytes: usize,
}

impl MessageQueue {
    /// Returns false if there is no room.
    fn push(&mut self, table: u16, message: Arc<[u8]>) -> bool {
        let has_room = self.bytes + message.len() <= MOST_BYTES;
        if has_room {
            self.bytes += message.len();
            self.messages.push_back((table, message));
        }
        has_room
    }

    fn pop(&mut self) -> Option<(u16, Arc<[u8]>)> {
        let first = self.messages.pop_front()?;
        self.bytes -= first.1.len();
        Some(first)
    }
}

/// The door of a table.
struct Inbox {
    queue: MessageQueue,
    bell: Arc<OwnedFd>,
}

/// Messages on their way, to and from this member.
#[derive(Default)]
pub(super) struct MemberMail {
    out: Mutex<BTreeMap<MemberId, MessageQueue>>,
    news: Condvar,
    inboxes: Mutex<BTreeMap<u16, Inbox>>,
    lost: AtomicU64,
}

impl MemberMail {
    fn lose(&self, count: usize) {
        self.lost.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Messages that were lost since the server started.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Has a queue for each other member, and for nobody else.
    fn follow(&self, members: &[MemberId]) {
        let mut out = self.out.lock();
        let gone: usize =
            out.extract_if(.., |id, _| !members.contains(id)).map(|(_, queue)| queue.messages.len()).sum();
        self.lose(gone);
        for id in members {
            out.entry(id.clone()).or_default();
        }
        self.news.notify_all();
    }

    /// The next messages for a member; empty if there are none for a while. `None`: it is no member any more.
    fn next(&self, to: &MemberId) -> Option<Vec<(u16, Arc<[u8]>)>> {
        let mut out = self.out.lock();
        if out.get(to)?.messages.is_empty() {
            self.news.wait_for(&mut out, REST);
        }
        let (queue, mut batch, mut bytes) = (out.get_mut(to)?, Vec::new(), 0);
        while let Some((table, message)) = queue.messages.front()
            && (batch.is_empty() || bytes + message.len() <= AT_ONCE)
            && batch.first().is_none_or(|(first, _)| first == table)
        {
            bytes += message.len();
            batch.extend(queue.pop());
        }
        Some(batch)
    }

    fn deliver(&self, table: u16, mut messages: &[u8]) -> Result<(), Status> {
        let mut inboxes = self.inboxes.lock();
        while !messages.is_empty() {
            let (message, rest) =
                split(messages).ok_or_else(|| Status::invalid_argument("the messages are malformed"))?;
            messages = rest;
            // A member without a door has nobody who would listen.
            let Some(inbox) = inboxes.get_mut(&table) else { continue };
            if !inbox.queue.push(table, message.into()) {
                self.lose(1);
            }
        }
        if let Some(inbox) = inboxes.get(&table) {
            // Full: it rings already.
            let _ = rustix::io::write(&*inbox.bell, &1_u64.to_ne_bytes());
        }
        Ok(())
    }
}

/// The first message, behind its length.
fn split(messages: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = messages.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

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
        let Some(config) = replication.right.config().filter(|config| config.epoch != self.epoch) else { return };
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
        let inbox = Inbox { queue: MessageQueue::default(), bell: Arc::clone(&bell) };
        replication.mail.inboxes.lock().insert(table, inbox);
        Ok(MemberMessages { replication: Arc::clone(replication), table, bell })
    }

    /// Sends a message to all other members. It does not wait for them. Returns false if the message is longer than
    /// [`MOST_MESSAGE_BYTES`].
    pub fn send(&self, message: &[u8]) -> bool {
        if message.len() > MOST_MESSAGE_BYTES {
            return false;
        }
        let (mail, message) = (&self.replication.mail, Arc::<[u8]>::from(message));
        let mut out = mail.out.lock();
        let refused =
            out.values_mut().filter_map(|queue| (!queue.push(self.table, Arc::clone(&message))).then_some(()));
        mail.lose(refused.count());
        drop(out);
        mail.news.notify_all();
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
        let mut inboxes = self.replication.mail.inboxes.lock();
        let queue = inboxes.get_mut(&self.table).map(|inbox| std::mem::take(&mut inbox.queue));
        queue.into_iter().flat_map(|queue| queue.messages).map(|(_, message)| message).collect()
    }

    /// Messages of all tables to and from this member that were lost since the server started.
    pub fn lost(&self) -> u64 {
        self.replication.mail.lost()
    }
}

impl Drop for MemberMessages {
    fn drop(&mut self) {
        let mut inboxes = self.replication.mail.inboxes.lock();
        if inboxes.get(&self.table).is_some_and(|inbox| Arc::ptr_eq(&inbox.bell, &self.bell)) {
            inboxes.remove(&self.table);
        }
    }
}

impl std::fmt::Debug for MemberMessages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemberMessages(table {})", self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> MemberId {
        MemberId { name: name.into(), incarnation: 1 }
    }

    #[test]
    fn queues_are_bounded_and_end_with_their_member() {
        let mail = MemberMail::default();
        mail.follow(&[id("b")]);
        let long: Arc<[u8]> = vec![0; MOST_BYTES / 2].into();
        let push = |bytes: &Arc<[u8]>| mail.out.lock().get_mut(&id("b")).unwrap().push(3, Arc::clone(bytes));
        assert_eq!([push(&long), push(&long), push(&long)], [true, true, false]);
        assert_eq!(mail.next(&id("b")).unwrap().len(), 1, "a long message goes alone");
        assert!(push(&long));
        mail.follow(&[id("c")]);
        assert!(mail.next(&id("b")).is_none());
        assert_eq!((mail.lost(), mail.next(&id("c")).unwrap().len()), (2, 0));
    }

    #[test]
    fn messages_that_go_together_are_of_one_table() {
        let mail = MemberMail::default();
        mail.follow(&[id("b")]);
        for table in [0, 0, 1, 0] {
            assert!(mail.out.lock().get_mut(&id("b")).unwrap().push(table, b"x"[..].into()));
        }
        let lengths: Vec<usize> = (0..3).map(|_| mail.next(&id("b")).unwrap().len()).collect();
        assert_eq!(lengths, [2, 1, 1]);
    }

    #[test]
    fn malformed_messages_are_refused() {
        let mail = MemberMail::default();
        mail.deliver(0, b"").unwrap();
        mail.deliver(0, b"\x01\0\0\0x").unwrap();
        for wrong in [&b"\x01\0\0"[..], b"\x02\0\0\0x", b"\xff\xff\xff\xffx"] {
            mail.deliver(0, wrong).unwrap_err();
        }
    }
}
