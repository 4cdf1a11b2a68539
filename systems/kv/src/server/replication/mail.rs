//! Messages of front doors on their way: queues for other members, and inboxes of this one.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cluster::MemberId;
use longarm_rpc::Status;
use parking_lot::{Condvar, Mutex};

use crate::protocol::{PIECE_BYTES, split_framed};

/// Bytes that wait for one member, or for a door, at most. Beyond, messages are lost.
const MOST_BYTES: usize = 64 << 20;
/// Bytes of one request, a single long message aside.
const AT_ONCE: usize = 64 << 10;
/// The longest time for which a thread waits for messages.
const REST: Duration = Duration::from_millis(100);

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
struct DoorInbox {
    queue: MessageQueue,
    bell: Arc<OwnedFd>,
}

/// Messages on their way, to and from this member.
#[derive(Default)]
pub(super) struct MemberMail {
    out: Mutex<BTreeMap<MemberId, MessageQueue>>,
    news: Condvar,
    inboxes: Mutex<BTreeMap<u16, DoorInbox>>,
    lost: AtomicU64,
}

impl MemberMail {
    pub(super) fn lose(&self, count: usize) {
        self.lost.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Messages that were lost since the server started.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Sends a message to all other members.
    pub(super) fn send(&self, table: u16, message: &Arc<[u8]>) {
        let mut out = self.out.lock();
        let refused = out.values_mut().filter_map(|queue| (!queue.push(table, Arc::clone(message))).then_some(()));
        self.lose(refused.count());
        drop(out);
        self.news.notify_all();
    }

    /// From now on messages for that table wait for its door, and the bell rings.
    pub(super) fn open(&self, table: u16, bell: &Arc<OwnedFd>) {
        let inbox = DoorInbox { queue: MessageQueue::default(), bell: Arc::clone(bell) };
        self.inboxes.lock().insert(table, inbox);
    }

    /// The messages for a table's door, if that bell is its.
    pub(super) fn take(&self, table: u16, bell: &Arc<OwnedFd>) -> impl Iterator<Item = Arc<[u8]>> {
        let mut inboxes = self.inboxes.lock();
        let inbox = inboxes.get_mut(&table).filter(|inbox| Arc::ptr_eq(&inbox.bell, bell));
        let queue = inbox.map(|inbox| std::mem::take(&mut inbox.queue));
        queue.into_iter().flat_map(|queue| queue.messages).map(|(_, message)| message)
    }

    /// The door with that bell has closed.
    pub(super) fn close(&self, table: u16, bell: &Arc<OwnedFd>) {
        let mut inboxes = self.inboxes.lock();
        if inboxes.get(&table).is_some_and(|inbox| Arc::ptr_eq(&inbox.bell, bell)) {
            inboxes.remove(&table);
        }
    }

    /// Has a queue for each other member, and for nobody else.
    pub(super) fn follow(&self, members: &[MemberId]) {
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
    pub(super) fn next(&self, to: &MemberId) -> Option<Vec<(u16, Arc<[u8]>)>> {
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

    pub(super) fn deliver(&self, table: u16, mut messages: &[u8]) -> Result<(), Status> {
        let mut inboxes = self.inboxes.lock();
        while !messages.is_empty() {
            let (message, rest) =
                split_framed(messages).ok_or_else(|| Status::invalid_argument("the messages are malformed"))?;
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
