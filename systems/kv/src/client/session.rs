//! A client's session with the server, and its right to a table: made when they are needed, and again when they are lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_rpc::{ClientOptions, Code, Executed, Method, NotStarted, Status};
use serde::de::DeserializeOwned;

use crate::client::link::{KvNetwork, Requester};
use crate::client::opening::TableOpening;
use crate::client::options::KvOptions;
use crate::client::term::MemberTerm;
use crate::clock::{ClockReading, now_ns};
use crate::error::KvError;
use crate::protocol::{
    ATTACH, AttachReply, AttachRequest, CHALLENGE, CLOSE, GrantKey, GrantRequest, OPEN, OpenReply, decode, encode,
};
use crate::server::{is_handing_over, is_locked};
use crate::surroundings::{instant, sleep};

/// The pause between two attempts to reach a server.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause before a request comes again that met a lock, or the hand-over of a slot.
const MOMENT: Duration = Duration::from_micros(100);
/// The time after which a client of a cluster looks elsewhere for the answer to a question.
pub(crate) const ATTEMPT: Duration = Duration::from_millis(400);
/// The longest time that a client takes to say that it goes.
const FAREWELL: Duration = Duration::from_millis(100);

/// Takes the number of a call and the bytes of its answer.
pub(crate) type EachAnswer<'a> = &'a mut dyn FnMut(usize, &[u8]) -> Result<(), KvError>;

/// Whether a request that may have been executed can be sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing.
    Always,
    /// Only if it was certainly not executed.
    IfNotExecuted,
}

/// The session with the server of a table.
pub(crate) struct TableSession {
    pub(crate) address: String,
    table: String,
    pub(crate) options: KvOptions,
    /// The way to the server: a device, or a simulation.
    network: Arc<dyn KvNetwork>,
    rpc: Option<Box<dyn Requester>>,
    opened: Option<OpenReply>,
    pub(super) clock: Option<ClockReading>,
    /// The term of a server that is a member with backups.
    pub(super) term: Option<MemberTerm>,
    /// Another server may have the answer: a failure is told at once.
    pub(crate) is_impatient: bool,
    request: Vec<u8>,
}

impl TableSession {
    pub(crate) fn over(network: Arc<dyn KvNetwork>, address: &str, table: &str, options: KvOptions) -> TableSession {
        TableSession {
            address: address.into(),
            table: table.into(),
            options,
            network,
            rpc: None,
            opened: None,
            clock: None,
            term: None,
            is_impatient: false,
            request: Vec::new(),
        }
    }

    /// The moment by which an operation that begins now has to end.
    pub(crate) fn deadline(&self) -> Instant {
        instant() + self.options.timeout
    }

    /// The reading of the server's clock.
    pub(crate) fn clock(&self) -> Option<ClockReading> {
        self.clock
    }

    /// The last change that is on disk, as far as this client knows. `None`: the server shows changes before, and readers may.
    pub(crate) fn durable(&self) -> Option<u64> {
        self.opened.as_ref().and_then(|opened| opened.durable)
    }

    /// Learns that a change is on disk: the server has told it.
    pub(crate) fn learn_durable(&mut self, number: u64) {
        if let Some(durable) = self.opened.as_mut().and_then(|opened| opened.durable.as_mut()) {
            *durable = number.max(*durable);
        }
    }

    /// Whether readers of the server's memory have to mind its term.
    pub(crate) fn has_backups(&self) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.member.is_some())
    }

    /// The server's term, as far as this client knows it.
    pub(crate) fn term(&self) -> Option<&MemberTerm> {
        self.term.as_ref()
    }

    /// Learns that changes up to this number are with all backups: the server has told it in this epoch.
    pub(crate) fn learn_safe(&mut self, epoch: u64, number: u64) {
        if let Some(term) = &mut self.term {
            term.learn(epoch, number);
        }
    }

    /// Takes a reading of the server's clock.
    pub(crate) fn learn(&mut self, reading: ClockReading) {
        let now = now_ns();
        self.clock = Some(self.clock.map_or(reading, |known| known.better(reading, now)));
    }

    /// The server's time of the last reading, in this machine's clock: for durations that people see.
    pub(crate) fn until(server_ns: u64, expires_ns: u64) -> Duration {
        Duration::from_nanos(expires_ns.saturating_sub(server_ns))
    }

    /// Calls a method, and fills `reply` with the answer. `request` appends the request, with the grant.
    pub(crate) fn call_into(
        &mut self,
        method: Method,
        repeat: Repeat,
        until: Instant,
        mut request: impl FnMut(GrantKey, &mut Vec<u8>),
        reply: &mut Vec<u8>,
    ) -> Result<(), KvError> {
        loop {
            let grant = self.open(until)?.grant;
            let mut bytes = std::mem::take(&mut self.request);
            bytes.clear();
            request(grant, &mut bytes);
            let is_short = self.is_impatient && repeat == Repeat::Always;
            let by = if is_short { until.min(instant() + ATTEMPT) } else { until };
            let done = self.exchange(method, &bytes, by, reply);
            self.request = bytes;
            match done {
                Ok(()) => return Ok(()),
                Err(status) => self.after(status, repeat, until)?,
            }
        }
    }

    /// Calls a method that has no bytes behind the head of its answer.
    pub(crate) fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        repeat: Repeat,
        until: Instant,
        request: impl FnMut(GrantKey, &mut Vec<u8>),
    ) -> Result<T, KvError> {
        let mut reply = Vec::new();
        self.call_into(method, repeat, until, request, &mut reply)?;
        Ok(decode::<T>(&reply)?.0)
    }

    /// The right to the table, which this asks for if there is none.
    pub(crate) fn open(&mut self, until: Instant) -> Result<&OpenReply, KvError> {
        while self.opened.is_none() {
            match self.ask_for_grant(until) {
                Ok(opened) => self.opened = Some(opened),
                Err(KvError::Server(status)) => self.after(status, Repeat::Always, until)?,
                Err(error) => return Err(error),
            }
        }
        self.opened.as_ref().ok_or(KvError::Revoked)
    }

    /// Makes sure that the server knows our right.
    pub(crate) fn confirm(&mut self, until: Instant) -> Result<(), KvError> {
        let request = |grant, out: &mut Vec<u8>| encode(&AttachRequest { grant, attempt: 0 }, &[], out);
        self.call::<AttachReply>(ATTACH, Repeat::Always, until, request).map(|_| ())
    }

    /// The right to the table, if it has one.
    pub(crate) fn opened(&self) -> Option<&OpenReply> {
        self.opened.as_ref()
    }

    /// The RPC client, if there is one.
    pub(crate) fn rpc(&mut self) -> Option<&mut dyn Requester> {
        match &mut self.rpc {
            Some(rpc) => Some(rpc.as_mut()),
            None => None,
        }
    }

    /// The way to the server.
    pub(crate) fn network(&self) -> &dyn KvNetwork {
        self.network.as_ref()
    }

    /// Decides whether a failed request is sent again, after a pause, and what is made anew before.
    pub(crate) fn after(&mut self, status: Status, repeat: Repeat, until: Instant) -> Result<(), KvError> {
        let may_repeat = repeat == Repeat::Always || status.executed() == Executed::No;
        if self.is_impatient
            && matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded)
            && !is_momentary(&status)
        {
            self.rpc = None;
            // A question can be asked elsewhere.
            return Err(KvError::Server(if may_repeat { status.with_executed(Executed::No) } else { status }));
        }
        match status.code() {
            // The server was started anew, or has forgotten us.
            Code::Aborted => self.opened = None,
            Code::Unavailable if is_momentary(&status) => sleep(MOMENT),
            Code::Unavailable if may_repeat => self.rpc = None,
            _ => return Err(status.into()),
        }
        if instant() + PAUSE >= until {
            return Err(KvError::Server(status));
        }
        if self.rpc.is_none() {
            sleep(PAUSE);
        }
        Ok(())
    }

    fn ask_for_grant(&mut self, until: Instant) -> Result<OpenReply, KvError> {
        let mut reply = Vec::new();
        self.exchange(CHALLENGE, &TableOpening::ask(&self.table), until, &mut reply)?;
        let (opening, request) = TableOpening::answer(&self.table, self.options.secret.as_ref(), &reply)?;
        let asked_ns = now_ns();
        self.exchange(OPEN, &request, until, &mut reply)?;
        let (opened, clock) = opening.finish(&reply, (asked_ns, now_ns()))?;
        // Another server may have another clock.
        (self.clock, self.term) = (Some(clock), None);
        Ok(opened)
    }

    /// Sends a request and waits for the answer.
    fn exchange(&mut self, method: Method, request: &[u8], until: Instant, reply: &mut Vec<u8>) -> Result<(), Status> {
        let rpc = self.connect(until)?;
        reply.clear();
        let id = loop {
            match rpc.start(method, request, Some(until)) {
                Ok(id) => break id,
                Err(NotStarted::Refused(status)) => return Err(status),
                // Calls that were given up may be with a server that stands.
                Err(NotStarted::Full) if instant() >= until => {
                    return Err(Status::deadline_exceeded("the session had no room for a request in time")
                        .with_executed(Executed::No));
                }
                Err(NotStarted::Full) => rpc.poll(&mut |_, _| ()),
            }
        };
        let mut result = None;
        while result.is_none() {
            rpc.poll(&mut |ended, answer| {
                if ended == id {
                    result = Some(answer.map(|bytes| reply.extend_from_slice(bytes)));
                }
            });
        }
        result.unwrap_or(Ok(()))
    }

    /// Calls a method several times, as many at a time as the session has room for. `answer` gets the bytes of each answer.
    ///
    /// # Errors
    /// The first one. Then some calls may have been executed, and no further one was started.
    pub(crate) fn call_many(
        &mut self,
        method: Method,
        count: usize,
        until: Instant,
        request: &mut dyn FnMut(usize, GrantKey, &mut Vec<u8>),
        answer: EachAnswer<'_>,
    ) -> Result<(), KvError> {
        let grant = self.open(until)?.grant;
        let mut bytes = std::mem::take(&mut self.request);
        let rpc = self.connect(until)?;
        let (mut under_way, mut next, mut failed) = (Vec::new(), 0, None);
        while !under_way.is_empty() || (next < count && failed.is_none()) {
            while next < count && failed.is_none() {
                bytes.clear();
                request(next, grant, &mut bytes);
                match rpc.start(method, &bytes, Some(until)) {
                    Ok(id) => {
                        under_way.push((id, next));
                        next += 1;
                    }
                    Err(NotStarted::Full) if under_way.is_empty() && instant() >= until => {
                        let late = "the session had no room for a request in time";
                        failed = Some(Status::deadline_exceeded(late).with_executed(Executed::No).into());
                    }
                    Err(NotStarted::Full) => break,
                    Err(NotStarted::Refused(status)) => failed = Some(status.into()),
                }
            }
            rpc.poll(&mut |ended, reply| {
                let Some(at) = under_way.iter().position(|(id, _)| *id == ended) else { return };
                let (_, number) = under_way.swap_remove(at);
                let done = reply.map_err(KvError::from).and_then(|reply| answer(number, reply));
                failed = failed.take().or(done.err());
            });
        }
        self.request = bytes;
        failed.map_or(Ok(()), Err)
    }

    fn connect(&mut self, until: Instant) -> Result<&mut dyn Requester, Status> {
        let rpc = match self.rpc.take() {
            Some(rpc) => rpc,
            None => {
                let left = until.saturating_duration_since(instant());
                let connect_timeout = self.options.rpc.connect_timeout.min(left);
                let options = ClientOptions { connect_timeout, ..self.options.rpc.clone() };
                self.network.connect(&self.address, &options)?
            }
        };
        Ok(self.rpc.insert(rpc).as_mut())
    }
}

/// True for refusals that end soon, at the same server: it ends the lock of a client that is gone, or hands the key's slot over.
pub(crate) fn is_momentary(status: &Status) -> bool {
    is_locked(status) || is_handing_over(status)
}

impl Drop for TableSession {
    /// Gives the right back. A server that does not answer forgets it later.
    fn drop(&mut self) {
        if let (Some(opened), true) = (self.opened.take(), self.rpc.is_some()) {
            let mut request = Vec::new();
            encode(&GrantRequest { grant: opened.grant }, &[], &mut request);
            let _ = self.exchange(CLOSE, &request, instant() + FAREWELL, &mut Vec::new());
        }
    }
}
