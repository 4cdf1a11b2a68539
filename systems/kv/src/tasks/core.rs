//! The things that tasks share: the right to the table, the channel for requests, the connection for READs.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use longarm_rpc::{Calling, Channel, Code, Executed, Metadata, Method, Request, Status};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::client::{ATTEMPT, KvOptions, KvStats, ReadReport, Repeat, TableOpening, WayChoices, is_momentary};
use crate::clock::{ClockReading, now_ns};
use crate::error::KvError;
use crate::protocol::{
    ATTACH, AttachReply, AttachRequest, CHALLENGE, GrantKey, OPEN, OpenReply, REPORT, ReportRequest, decode, encode,
};
use crate::tasks::pause::pause;
use crate::tasks::reader::TaskReader;

/// The pause between two attempts to reach a server.
const PAUSE: Duration = Duration::from_millis(10);

/// All that the clones of a table share.
pub(super) struct TaskCore {
    pub(super) address: String,
    pub(super) table: String,
    pub(super) options: KvOptions,
    channel: Channel,
    /// Another server may have the answer: a failure is told at once.
    is_impatient: bool,
    pub(super) state: Mutex<TaskState>,
    /// Held by the one task that opens the table, or connects for READs.
    pub(super) making: async_lock::Mutex<()>,
    /// Held by the one task that sends a long value.
    pub(super) sending: async_lock::Mutex<()>,
}

/// The state that changes.
pub(super) struct TaskState {
    opened: Option<Arc<OpenReply>>,
    /// The last change that is on disk, as far as this client knows; `None`: readers need not know.
    durable: Option<u64>,
    pub(super) reader: Option<Arc<TaskReader>>,
    clock: Option<ClockReading>,
    pub(super) report: ReadReport,
    pub(super) choices: WayChoices,
    /// The last report under way. Nobody waits for its answer.
    reporting: Option<Calling>,
    pub(super) stats: KvStats,
}

impl TaskState {
    /// True if the server has given the right to the table.
    pub(super) fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    /// The seed of the tags by which the server wants to know keys in use, if it wants to.
    pub(super) fn evicting_seed(&self) -> Option<u64> {
        self.opened.as_ref().filter(|opened| opened.evicts).map(|opened| opened.tag_seed)
    }
}

impl TaskCore {
    pub(super) fn new(address: &str, table: &str, options: KvOptions) -> Result<TaskCore, KvError> {
        let channel = Channel::lazy(address, options.rpc.clone())?;
        let state = TaskState {
            opened: None,
            durable: None,
            reader: None,
            clock: None,
            report: ReadReport::new(),
            choices: WayChoices::new(),
            reporting: None,
            stats: KvStats::default(),
        };
        Ok(TaskCore {
            address: address.into(),
            table: table.into(),
            options,
            channel,
            is_impatient: false,
            state: Mutex::new(state),
            making: async_lock::Mutex::new(()),
            sending: async_lock::Mutex::new(()),
        })
    }

    /// The same for a client of a cluster.
    pub(super) fn impatient(address: &str, table: &str, options: KvOptions) -> Result<TaskCore, KvError> {
        Ok(TaskCore { is_impatient: true, ..TaskCore::new(address, table, options)? })
    }

    /// The moment by which an operation that begins now has to end.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    pub(super) fn durable(&self) -> Option<u64> {
        self.state.lock().durable
    }

    /// Learns that a change is on disk: the server has told it.
    pub(super) fn learn_durable(&self, number: u64) {
        if let Some(durable) = &mut self.state.lock().durable {
            *durable = number.max(*durable);
        }
    }

    pub(super) fn clock(&self) -> Option<ClockReading> {
        self.state.lock().clock
    }

    pub(super) fn learn(&self, reading: ClockReading) {
        let (now, mut state) = (now_ns(), self.state.lock());
        state.clock = Some(state.clock.map_or(reading, |known| known.better(reading, now)));
    }

    /// The right to the table, if there is one.
    pub(super) fn opened(&self) -> Option<Arc<OpenReply>> {
        self.state.lock().opened.clone()
    }

    /// The right to the table. One task asks for it, the others wait.
    pub(super) async fn open(&self, until: Instant) -> Result<Arc<OpenReply>, KvError> {
        if let Some(opened) = self.opened() {
            return Ok(opened);
        }
        let _making = self.making.lock().await;
        self.open_alone(until).await
    }

    /// The same for a task that holds the lock already.
    pub(super) async fn open_alone(&self, until: Instant) -> Result<Arc<OpenReply>, KvError> {
        loop {
            if let Some(opened) = self.opened() {
                return Ok(opened);
            }
            match self.ask_for_grant(until).await {
                Ok((opened, clock)) => {
                    let (mut state, opened) = (self.state.lock(), Arc::new(opened));
                    // Another server may have another clock.
                    state.durable = opened.durable;
                    (state.opened, state.clock) = (Some(Arc::clone(&opened)), Some(clock));
                    return Ok(opened);
                }
                Err(KvError::Server(status)) => self.after(status, Repeat::Always, None, until).await?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn ask_for_grant(&self, until: Instant) -> Result<(OpenReply, ClockReading), KvError> {
        let until = if self.is_impatient { until.min(Instant::now() + ATTEMPT) } else { until };
        let challenge = self.exchange(CHALLENGE, TableOpening::ask(&self.table), until).await?;
        let (opening, request) = TableOpening::answer(&self.table, self.options.secret.as_ref(), &challenge)?;
        let asked_ns = now_ns();
        let reply = self.exchange(OPEN, request, until).await?;
        opening.finish(&reply, (asked_ns, now_ns()))
    }

    /// Gives the right up. Returns it.
    pub(super) fn forget(&self) -> Option<Arc<OpenReply>> {
        let mut state = self.state.lock();
        let dropped = (state.reporting.take(), state.reader.take());
        let opened = state.opened.take();
        drop(state);
        drop(dropped);
        opened
    }

    /// Makes sure that the server knows our right; for a task that holds the lock.
    pub(super) async fn confirm(&self, until: Instant) -> Result<(), KvError> {
        loop {
            let grant = self.open_alone(until).await?.grant;
            let mut request = Vec::new();
            encode(&AttachRequest { grant, attempt: 0 }, &[], &mut request);
            match self.exchange(ATTACH, request, until).await {
                Ok(reply) => return Ok(decode::<AttachReply>(&reply).map(|_| ())?),
                Err(status) => self.after(status, Repeat::Always, Some(grant), until).await?,
            }
        }
    }

    /// Calls a method. `request` appends the request, with the grant.
    pub(super) async fn call_bytes(
        &self,
        method: Method,
        repeat: Repeat,
        until: Instant,
        request: impl Fn(GrantKey, &mut Vec<u8>),
    ) -> Result<Bytes, KvError> {
        loop {
            let grant = self.open(until).await?.grant;
            let mut bytes = Vec::new();
            request(grant, &mut bytes);
            let is_short = self.is_impatient && repeat == Repeat::Always;
            let by = if is_short { until.min(Instant::now() + ATTEMPT) } else { until };
            match self.exchange(method, bytes, by).await {
                Ok(reply) => return Ok(reply),
                Err(status) => self.after(status, repeat, Some(grant), until).await?,
            }
        }
    }

    /// Calls a method that has no bytes behind the head of its answer.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        repeat: Repeat,
        until: Instant,
        request: impl Fn(GrantKey, &mut Vec<u8>),
    ) -> Result<T, KvError> {
        let reply = self.call_bytes(method, repeat, until, request).await?;
        Ok(decode::<T>(&reply)?.0)
    }

    /// Sends one request. A task that gives up withdraws it.
    pub(super) async fn exchange(&self, method: Method, request: Vec<u8>, until: Instant) -> Result<Bytes, Status> {
        let request = Request::from_parts(Bytes::from(request), Metadata::default(), Some(until));
        Ok(self.channel.call(method, request).await?.into_inner())
    }

    /// Decides whether a failed request is sent again, after a pause.
    pub(super) async fn after(
        &self,
        status: Status,
        repeat: Repeat,
        grant: Option<GrantKey>,
        until: Instant,
    ) -> Result<(), KvError> {
        let may_repeat = repeat == Repeat::Always || status.executed() == Executed::No;
        let is_away = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) && !is_momentary(&status);
        if self.is_impatient && is_away {
            // A question can be asked elsewhere.
            return Err(KvError::Server(if may_repeat { status.with_executed(Executed::No) } else { status }));
        }
        match status.code() {
            // The server was started anew, or has forgotten us. Another task may have opened the table meanwhile.
            Code::Aborted => {
                let mut state = self.state.lock();
                if state.opened.as_ref().map(|opened| opened.grant) == grant {
                    state.opened = None;
                }
            }
            Code::Unavailable if may_repeat => {}
            _ => return Err(status.into()),
        }
        if pause(PAUSE, until).await { Ok(()) } else { Err(KvError::Server(status)) }
    }

    /// Sends a report and does not wait for the answer. A server that is busy or away misses it.
    pub(super) fn send_report(&self, gets: u64, tags: &[u8]) {
        let Some(grant) = self.opened().map(|opened| opened.grant) else { return };
        let mut bytes = Vec::new();
        encode(&ReportRequest { grant, gets }, &[tags], &mut bytes);
        let request = Request::from_parts(Bytes::from(bytes), Metadata::default(), Some(self.deadline()));
        let mut calling = self.channel.call(REPORT, request);
        // The first poll sends it.
        if pin!(&mut calling).poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            let before = self.state.lock().reporting.replace(calling);
            drop(before);
        }
    }
}
