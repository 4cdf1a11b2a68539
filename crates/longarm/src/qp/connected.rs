//! Connected queue pairs.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use transport::{AtomicOp, QpCounters, QpState, Reason};
use wire::{Qpn, RKey};

use super::ConnectionInfo;
use super::core::QueuePairCore;
use super::service::{Connected, Rc};
use crate::batch::Batch;
use crate::buffer::Buffer;
use crate::completion::Completion;
use crate::domain::ProtectionDomain;
use crate::error::{ResourceError, WaitError};
use crate::flight::{Lend, Loan, Ticket};
use crate::object::ObjectRead;
use crate::receive::Receive;
use crate::remote::RemoteKey;
use crate::request::SendRequest;
use crate::window::{BoundWindow, Window};
use crate::work::Work;

/// A queue pair that is connected to a peer.
///
/// Every method that names an operation returns a [`Work`]: a request that has still
/// to be awaited, waited for, started or posted. Requests are carried out in the order in which
/// they are posted, by any number of threads.
///
/// Dropping the queue pair ends the connection. Outstanding requests are flushed, and their buffers
/// come back through the futures and tickets that stand for it.
pub struct QueuePair<S = Rc> {
    core: QueuePairCore,
    peer: ConnectionInfo,
    service: PhantomData<S>,
}

impl<S: Connected> QueuePair<S> {
    pub(super) fn new(core: QueuePairCore, peer: ConnectionInfo) -> QueuePair<S> {
        QueuePair { core, peer, service: PhantomData }
    }

    pub(super) fn core(&self) -> &QueuePairCore {
        &self.core
    }

    /// Sends the buffer's contents into the peer's next receive buffer.
    pub fn send<B: Lend>(&self, buffer: B) -> Work<'_, B> {
        Work::new(&self.core, SendRequest::send(buffer.lend()))
    }

    /// As [`send`](QueuePair::send), with 32 bits of immediate data.
    pub fn send_with_imm<B: Lend>(&self, buffer: B, imm: u32) -> Work<'_, B> {
        Work::new(&self.core, SendRequest::send_with_imm(buffer.lend(), imm))
    }

    /// Sends bytes that are copied before the call returns. Their number is limited; see
    /// [`inline_bytes`](super::QpBuilder::inline_bytes).
    pub fn send_inline(&self, bytes: &[u8]) -> Work<'_, ()> {
        Work::new(&self.core, SendRequest::send_inline(bytes))
    }

    /// Writes the buffer's contents to the peer's memory, from the start of `to` on. The peer's
    /// program takes no part and is not told.
    pub fn write<B: Lend>(&self, buffer: B, to: &RemoteKey) -> Work<'_, B> {
        Work::new(&self.core, SendRequest::write(buffer.lend(), to))
    }

    /// As [`write`](QueuePair::write), and uses up a receive buffer of the peer to tell it, with
    /// 32 bits of immediate data.
    pub fn write_with_imm<B: Lend>(&self, buffer: B, to: &RemoteKey, imm: u32) -> Work<'_, B> {
        Work::new(&self.core, SendRequest::write_with_imm(buffer.lend(), to, imm))
    }

    /// Writes bytes that are copied before the call returns, as for [`send_inline`](QueuePair::send_inline).
    pub fn write_inline(&self, bytes: &[u8], to: &RemoteKey) -> Work<'_, ()> {
        Work::new(&self.core, SendRequest::write_inline(bytes, to))
    }

    /// Writes bytes to the peer's memory before the call returns, if that is possible: both processes are on one host, and
    /// no earlier request is under way. There is no request then, and so no completion. Returns false if nothing was
    /// written: [`write_inline`](QueuePair::write_inline) does it, or says why not.
    ///
    /// ```no_run
    /// # fn example(qp: longarm::QueuePair, to: longarm::RemoteKey) -> Result<(), longarm::Failure> {
    /// if !qp.write_now(b"a few bytes", &to) {
    ///     qp.write_inline(b"a few bytes", &to).post()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_now(&self, bytes: &[u8], to: &RemoteKey) -> bool {
        bytes.len() as u64 <= to.len_bytes() && self.core.write_now(bytes, to)
    }

    /// Posts a buffer for a message of the peer.
    pub fn recv(&self, buffer: Buffer) -> Receive<'_> {
        Receive::new(&self.core, Loan::Buffer(buffer))
    }

    /// Starts a list of requests that are posted together.
    pub fn batch(&self) -> Batch<'_, S> {
        Batch::new(&self.core)
    }

    /// Makes a window usable: it gets a new key, under which the peer has the rights of the window's
    /// access.
    pub fn bind<'r>(&self, window: Window<'r>) -> Work<'_, BoundWindow<'r>> {
        Work::new(&self.core, SendRequest::bind(window.into_core()))
    }

    /// Revokes a window's key, in order with other requests. (Dropping the window revokes
    /// it too, immediately.)
    pub fn unbind<'r>(&self, window: BoundWindow<'r>) -> Work<'_, Window<'r>> {
        Work::new(&self.core, SendRequest::unbind(window.into_core()))
    }

    /// Waits for a request that was [posted](Work::post).
    ///
    /// # Errors
    /// After `timeout` the ticket is still good. A ticket of another queue pair, or one whose
    /// completion was taken already, is unknown.
    pub fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<Completion, WaitError> {
        self.core.wait(ticket, timeout)
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.core.qpn()
    }

    /// The peer, as it was connected to.
    pub fn peer(&self) -> &ConnectionInfo {
        &self.peer
    }

    /// Its state now.
    pub fn state(&self) -> QpState {
        self.core.handle().state()
    }

    /// Fails the queue pair at once, so that the peer begins no further access to our memory. Then waits until those that
    /// are under way have ended, for `patience` at most. True if they have: no WRITE of the peer comes late.
    ///
    /// False means that the peer is a process on this host which stands still in the middle of an access, and may go on
    /// later. The caller can ask again. Dropping the queue pair then takes up to half a minute, and so does
    /// dropping memory or a window that the peer could reach.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(connection: longarm::Connection, window: longarm::BoundWindow<'static>) {
    /// if connection.cut_off(Duration::from_millis(10)) {
    ///     drop(window);                                           // at once
    /// }
    /// # }
    /// ```
    pub fn cut_off(&self, patience: Duration) -> bool {
        self.core.handle().cut_off(patience)
    }

    /// The reason why it failed, in words, if it did.
    pub fn failure(&self) -> Option<Reason> {
        self.core.failure()
    }

    /// Its counters.
    pub fn counters(&self) -> QpCounters {
        self.core.handle().counters()
    }

    /// The domain that it belongs to.
    pub fn protection_domain(&self) -> &ProtectionDomain {
        &self.core.domain
    }

    /// Ends the connection without dropping the queue pair: outstanding requests are flushed.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn abort(&self) -> Result<(), ResourceError> {
        Ok(self.core.abort()?)
    }
}

impl QueuePair<Rc> {
    /// As [`send`](QueuePair::send), and invalidates a key of the peer's: a memory window of
    /// type 2 that it has bound on this connection.
    pub fn send_with_invalidate<B: Lend>(&self, buffer: B, key: RKey) -> Work<'_, B> {
        Work::new(&self.core, SendRequest::send_with_invalidate(buffer.lend(), key))
    }

    /// Reads all of `from`, in the peer's memory, into the buffer. The peer's program takes no
    /// part.
    pub fn read<B: Lend>(&self, buffer: B, from: &RemoteKey) -> Work<'_, B> {
        Work::new(&self.core, SendRequest::read(buffer.lend(), from))
    }

    /// Reads all of `from` as it was at one moment: an object of 16 bytes to 16 KiB, at an address that is a multiple of 8.
    ///
    /// An object begins with a word that its writers change. First they set a bit of `lock_mask` in it: the lock. Then they change
    /// the bytes, and store a word without the lock that the object never had before. The responder copies the object, and
    /// makes sure that the word was the same before and after, and not locked. Otherwise it tries again, some times. The peer's
    /// program takes no part. On one host this processor does it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(qp: longarm::QueuePair, buffer: longarm::Buffer, object: longarm::RemoteKey) -> Result<(), Box<dyn std::error::Error>> {
    /// use longarm::ObjectRead;
    /// match qp.read_object(buffer, &object, 1 << 63).wait(Duration::from_secs(5))? {
    ///     ObjectRead::Whole(object) => println!("version {:?}", &object[..8]),
    ///     ObjectRead::Busy(_) => println!("somebody writes it: again, a little later"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is an extension of Longarm's (docs/extensions.md): [`Capabilities::object_read`](crate::Capabilities) tells whether
    /// the device has it, and [`peer_extends`](QueuePair::peer_extends) whether the peer has.
    pub fn read_object<B: Lend>(&self, buffer: B, from: &RemoteKey, lock_mask: u64) -> Work<'_, ObjectRead<B>> {
        Work::new(&self.core, SendRequest::read_object(buffer.lend(), from, lock_mask, &self.core.domain))
    }

    /// Lets the peer's device carry out a call: the [handler](crate::MemoryRegion::serve_calls) of the region that `to` names gets
    /// the request and `to`'s first address. Its reply comes into the buffer, and sets its length. The peer's program
    /// takes no part. The call is executed once, or this connection fails.
    ///
    /// A request has as many bytes as a packet of the connection at most (256 to 4096), and a reply 16 KiB. A longer
    /// reply than the buffer is the handler's to cut. (The length of a [`RegionSlice`](crate::RegionSlice) does not change:
    /// [`Completion::reply_bytes`] tells it in poll mode.)
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(qp: longarm::QueuePair, buffer: longarm::Buffer, table: longarm::RemoteKey) -> Result<(), Box<dyn std::error::Error>> {
    /// let reply = qp.call(b"a key", buffer, &table).wait(Duration::from_secs(5))?;
    /// println!("{} bytes: {:?}", reply.len(), &reply[..]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is an extension of Longarm's (docs/extensions.md): [`Capabilities::calls`](crate::Capabilities) tells whether the device
    /// has it, and [`peer_extends`](QueuePair::peer_extends) whether the peer has.
    pub fn call<B: Lend>(&self, request: &[u8], reply: B, to: &RemoteKey) -> Work<'_, B> {
        Work::new(&self.core, SendRequest::call(request, reply.lend(), to, &self.core.domain))
    }

    /// Whether the peer carries out Longarm's own requests: `None` until an answer of it has told. The first request of this
    /// kind asks by itself; if the peer does not know it then, the request fails and ends the connection. Later ones are refused
    /// when they are posted.
    pub fn peer_extends(&self) -> Option<bool> {
        self.core.handle().peer_extends()
    }

    /// Stores `swap` in the peer's word `at` if it holds `compare`, and returns what it held
    /// before. No other atomic comes in between.
    pub fn compare_swap(&self, at: &RemoteKey, compare: u64, swap: u64) -> Work<'_, u64> {
        self.atomic(at, AtomicOp::CompareSwap { compare, swap })
    }

    /// Adds to the peer's word `at`, wrapping, and returns what it held before. No other
    /// atomic comes in between.
    pub fn fetch_add(&self, at: &RemoteKey, add: u64) -> Work<'_, u64> {
        self.atomic(at, AtomicOp::FetchAdd { add })
    }

    /// Writes the peer's word `at` in one store: no reader sees half of it. It is carried out in order with READs and
    /// atomics. [`Capabilities::atomic_write`](crate::Capabilities) tells whether the device has it.
    pub fn atomic_write(&self, at: &RemoteKey, value: u64) -> Work<'_, ()> {
        Work::new(&self.core, SendRequest::atomic_write(at, value))
    }

    /// Completes when all earlier WRITEs of this queue pair to `range` are visible to every reader of the peer's memory.
    /// The key needs the right [`FLUSH_GLOBAL`](crate::Access::FLUSH_GLOBAL), and the device
    /// [`Capabilities::flush`](crate::Capabilities).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(qp: longarm::QueuePair, record: longarm::Buffer, log: longarm::RemoteKey) -> Result<(), Box<dyn std::error::Error>> {
    /// let record = qp.write(record, &log).unsignaled().post()?;
    /// qp.flush(&log).wait(Duration::from_secs(5))?;                    // the record is there, for everybody
    /// # Ok(())
    /// # }
    /// ```
    pub fn flush(&self, range: &RemoteKey) -> Work<'_, ()> {
        Work::new(&self.core, SendRequest::flush(range))
    }

    fn atomic(&self, at: &RemoteKey, op: AtomicOp) -> Work<'_, u64> {
        let request = SendRequest::atomic(op, at, &self.core.domain);
        Work::new(&self.core, request)
    }
}

impl<S: Connected> fmt::Debug for QueuePair<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, qpn, state) = (S::TYPE, self.qpn(), self.state());
        write!(f, "QueuePair({service:?} {qpn}, {state:?}, to {:?})", self.peer)
    }
}
