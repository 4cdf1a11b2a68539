//! The state that all threads share: the primary's end of all streams, and answers that wait for backups.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use cluster::{ClusterConfig, HashSlot, MemberId, NotServing, ServingRight};
use journal::{Disk, Journal};
use longarm_rpc::{Executed, Status};
use parking_lot::{Condvar, Mutex, MutexGuard};
use replica::{ChangeState, ReplicaReceiver, ReplicaRecord, ReplicaSender, SenderOptions};

use crate::proof::TableSecret;
use crate::server::durable::{DataDirectory, DataError, MemberLife};
use crate::server::replication::mail::MemberMail;
use crate::server::replication::options::MembershipOptions;
use crate::server::replication::own_log::OwnLog;
use crate::server::replication::passes::Passes;
use crate::server::served::ServedTable;
use crate::server::slots::{handing_over, refusal};

/// Changes that an earlier process may have numbered and not synced, at most: a second of them, many times over.
const UNSYNCED: u64 = 1 << 24;

thread_local! {
    /// The number of the last change that this thread has made; zero if none since the last look.
    static CHANGED: Cell<u64> = const { Cell::new(0) };
}

/// The number of the last change that this thread has made since the last call, if it has made one.
pub(super) fn take_changed() -> Option<u64> {
    Some(CHANGED.take()).filter(|number| *number != 0)
}

/// An answer that waits until the change with this number is with all backups.
struct WaitingAnswer {
    number: u64,
    waker: Waker,
}

/// The replication of a server's tables.
pub(crate) struct Replication {
    pub(crate) right: ServingRight,
    /// In the order of their names, which is the same at all members.
    pub(super) tables: Vec<Arc<ServedTable>>,
    pub(super) secret: Option<TableSecret>,
    pub(super) passes: Passes,
    sender: Mutex<ReplicaSender>,
    /// The epoch that the sender knows.
    epoch: AtomicU64,
    pub(super) receiver: Mutex<ReplicaReceiver>,
    /// There may be something to send.
    pub(super) work: Condvar,
    /// There is another configuration.
    pub(super) news: Condvar,
    waiting: Mutex<Vec<WaitingAnswer>>,
    pub(super) is_stopping: AtomicBool,
    /// The end of the longest term that a reader of memory was told.
    told_until_ns: AtomicU64,
    /// Messages between front doors.
    pub(super) mail: MemberMail,
    /// Answers wait for this log on disk, too.
    pub(super) own: Option<OwnLog>,
    /// The directory with the tables, and its log.
    disk: Option<(Arc<dyn Disk>, Arc<Journal>)>,
}

impl Replication {
    pub(crate) fn new(
        right: ServingRight,
        mut tables: Vec<Arc<ServedTable>>,
        options: &MembershipOptions,
        durable: Option<&DataDirectory>,
    ) -> Replication {
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let me: MemberId = right.member().clone();
        let patience_ns = u64::try_from(options.patience.as_nanos()).unwrap_or(u64::MAX);
        let sender = SenderOptions { patience_ns, ..SenderOptions::default() };
        let mut sender = ReplicaSender::new(me.clone(), sender);
        if let Some((life, last_stamp)) = durable.and_then(|durable| durable.life.as_ref()) {
            sender.resume(last_stamp.saturating_add(UNSYNCED), life.processes);
        }
        let strict = durable.filter(|durable| durable.is_strict());
        Replication {
            right,
            tables,
            secret: options.secret.clone(),
            passes: Passes::default(),
            sender: Mutex::new(sender),
            epoch: AtomicU64::new(0),
            receiver: Mutex::new(ReplicaReceiver::new(me)),
            work: Condvar::new(),
            news: Condvar::new(),
            waiting: Mutex::default(),
            is_stopping: AtomicBool::new(false),
            told_until_ns: AtomicU64::new(0),
            mail: MemberMail::default(),
            own: strict.map(|durable| OwnLog::new(Arc::clone(&durable.journal))),
            disk: durable.map(|durable| (Arc::clone(durable.disk()), Arc::clone(&durable.journal))),
        }
    }

    /// The tables in the order of their numbers.
    pub(crate) fn tables(&self) -> &[Arc<ServedTable>] {
        &self.tables
    }

    /// The primary's end. Tables are locked before.
    pub(super) fn sender(&self) -> MutexGuard<'_, ReplicaSender> {
        self.sender.lock()
    }

    /// Takes the newest configuration that the member knows.
    pub(super) fn follow(&self) {
        let Some(config) = self.right.config() else { return };
        if config.epoch > self.epoch.load(Ordering::Acquire) {
            self.take(&config);
        }
    }

    fn take(&self, config: &Arc<ClusterConfig>) {
        let mut sender = self.sender.lock();
        sender.set_config(config);
        self.epoch.store(sender.roles().epoch(), Ordering::Release);
        drop(sender);
        self.work.notify_all();
        self.news.notify_all();
        self.wake_answers();
    }

    /// The address of another member.
    pub(super) fn address_of(&self, member: &MemberId) -> Result<String, Status> {
        let config = self.right.config();
        let address = config.and_then(|config| Some(config.member(&member.name)?.address.clone()));
        address.ok_or_else(|| Status::unavailable(format!("{} is no member any more", member.name)))
    }

    /// Asks whether this member serves a slot. Returns the number of its tenure.
    pub(crate) fn admit(&self, slot: HashSlot) -> Result<u64, Status> {
        self.check(slot).map_err(|error| refusal(&error))
    }

    /// The same, for callers that have their own words.
    pub(super) fn check(&self, slot: HashSlot) -> Result<u64, NotServing> {
        let grant = self.right.check(slot)?;
        // A new primary must know that it is one before it tells a value: backups may lack it.
        if grant.epoch > self.epoch.load(Ordering::Acquire) {
            self.follow();
        }
        self.sender().tenure(slot).ok_or(NotServing::NoTerm)
    }

    /// Asks, after the table was looked at, whether the member has served the slot all the time. Returns the number of the last change
    /// that can have been seen.
    pub(crate) fn conclude(&self, slot: HashSlot, tenure: u64) -> Result<u64, Status> {
        let sender = self.sender.lock();
        let (now, number) = (sender.tenure(slot), sender.last());
        drop(sender);
        self.right.check(slot).map_err(|error| refusal(&error).with_executed(Executed::Unknown))?;
        if now == Some(tenure) { Ok(number) } else { Err(unknown()) }
    }

    /// The number of the last change.
    pub(crate) fn last(&self) -> u64 {
        self.sender.lock().last()
    }

    /// A test of keys: whether this member serves them now. `None`: it has no term.
    pub(crate) fn served_keys(&self) -> Option<impl Fn(&[u8]) -> bool + '_> {
        let until_ns = self.right.until_ns();
        let serves = |key: &[u8]| self.right.check(HashSlot::of_key(key)).is_ok();
        (cluster::boot_ns() < until_ns).then_some(serves)
    }

    /// Sends a change of a key to all members that have its share, when this member's own log has taken it: `own` returns its mark there. Returns
    /// the number of the change. The table is locked.
    pub(super) fn change<'a>(
        self: &Arc<Self>,
        key: &[u8],
        own: impl FnOnce(u64) -> Result<Option<u64>, Status>,
        record: impl FnOnce(u64) -> ReplicaRecord<'a>,
    ) -> Result<u64, Status> {
        let (slot, mut sender) = (HashSlot::of_key(key), self.sender.lock());
        if !sender.serves(slot) {
            let is_momentary = sender.tenure(slot).is_some();
            return Err(if is_momentary { handing_over() } else { refusal(&NotServing::NoTerm) });
        }
        let stamp = sender.next_number();
        let mark = own(stamp)?;
        let number = sender.change(slot, record(stamp));
        if let (Some(mark), Some(_)) = (mark, &self.own) {
            sender.log(mark);
        }
        drop(sender);
        self.watch_own_log();
        CHANGED.set(number);
        self.work.notify_all();
        Ok(number)
    }

    /// Waits until everything up to this number is with all backups.
    pub(crate) fn poll_settled(&self, number: u64, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let sender = self.sender.lock();
        match sender.state(number) {
            ChangeState::Settled => Poll::Ready(Ok(())),
            ChangeState::Unknown => Poll::Ready(Err(unknown())),
            ChangeState::Waiting if self.has_ended() => Poll::Ready(Err(unknown())),
            ChangeState::Waiting => {
                self.waiting.lock().push(WaitingAnswer { number, waker: context.waker().clone() });
                Poll::Pending
            }
        }
    }

    /// Nobody here will learn any more what becomes of changes that wait.
    pub(super) fn has_ended(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire) || self.own.as_ref().is_some_and(OwnLog::has_failed)
    }

    /// The configuration knows what this member's data may lack. If nothing is answered that is not on disk, the next process need not say
    /// it again.
    pub(super) fn note_wholeness(&self) -> Result<(), DataError> {
        match (&self.own, &self.disk) {
            (Some(_), Some((disk, _))) => MemberLife::set_may_lack(&**disk, false),
            _ => Ok(()),
        }
    }

    /// The disk takes no changes any more, so this member cannot be a backup either.
    pub(super) fn has_lost_disk(&self) -> bool {
        self.disk.as_ref().is_some_and(|(_, journal)| journal.figures().failed != 0)
    }

    /// Lets answers leave that need not wait any more.
    pub(super) fn wake_answers(&self) {
        let sender = self.sender.lock();
        let has_ended = self.has_ended();
        let is_over = |one: &mut WaitingAnswer| has_ended || sender.state(one.number) != ChangeState::Waiting;
        let over: Vec<WaitingAnswer> = self.waiting.lock().extract_if(.., is_over).collect();
        drop(sender);
        // A waker runs the rest of its answer.
        over.into_iter().for_each(|one| one.waker.wake());
    }

    /// The term that readers of memory mind: epoch, end and the number up to which they may take values. The end is zero when they have
    /// to ask instead.
    pub(super) fn standing(&self) -> (u64, u64, u64) {
        self.follow();
        let sender = self.sender.lock();
        let (epoch, safe) = (sender.roles().epoch(), sender.shown());
        drop(sender);
        let Some((_, until_ns)) = self.right.term().filter(|(config, _)| config.epoch == epoch) else {
            return (epoch, 0, 0);
        };
        // Noted before the look at the mark, which `stop` sets before it looks at the note.
        self.told_until_ns.fetch_max(until_ns, Ordering::SeqCst);
        if self.is_stopping.load(Ordering::SeqCst) { (epoch, 0, 0) } else { (epoch, until_ns, safe) }
    }

    /// An answer tells readers of memory this: the epoch, and the number up to which they may take values.
    pub(crate) fn safe(&self) -> (u64, u64) {
        let sender = self.sender.lock();
        (sender.roles().epoch(), sender.shown())
    }

    /// Tells no more terms, and ends all waiting answers. Returns the end of the longest term that was told.
    pub(super) fn stop(&self) -> u64 {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.work.notify_all();
        self.news.notify_all();
        self.wake_answers();
        self.told_until_ns.load(Ordering::SeqCst)
    }
}

/// The answer to a request of which nobody here knows whether the next primary has its change.
fn unknown() -> Status {
    Status::unavailable("the server does not serve the key's slot any more").with_executed(Executed::Unknown)
}
