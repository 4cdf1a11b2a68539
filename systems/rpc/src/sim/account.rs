//! The account of all calls, apart from the code under test, and the rules that it checks.

use std::collections::BTreeMap;

use crate::code::{Code, Executed};
use crate::session::CallId;
use crate::sim::bytes::{body_of, reply_of, words_of};
use crate::sim::scenario::CallPlan;
use crate::status::Status;

/// Callers hear of a passed deadline within this time.
const DEADLINE_GRACE_NS: u64 = 2_000_000;

/// The end of a call, as its caller heard it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Reply,
    Error(Code, Executed),
    /// The caller withdrew it.
    Cancelled,
    /// The caller is gone.
    Crashed,
}

/// A call.
pub(crate) struct CallRecord {
    pub(crate) plan: CallPlan,
    pub(crate) client: usize,
    /// The connection on which it was sent, its place there, and the time.
    pub(crate) sent: Option<(usize, CallId, u64)>,
    pub(crate) deadline_ns: Option<u64>,
    pub(crate) told: Option<Told>,
    pub(crate) is_hostile: bool,
    arrived_ns: Option<u64>,
    executions: u32,
    is_answered: bool,
}

/// All calls of a run. A call's number is that of its method: so a handler knows which one it has.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) calls: Vec<CallRecord>,
    pub(crate) seen: BTreeMap<&'static str, u64>,
}

/// A rule was broken: this one.
pub(crate) type Broken = String;

/// The circumstances of an outcome.
pub(crate) struct Circumstances {
    pub(crate) now_ns: u64,
    pub(crate) is_up: bool,
    pub(crate) is_draining: bool,
    /// The devices may refuse requests, and have no memory.
    pub(crate) may_be_busy: bool,
    pub(crate) max_message_bytes: usize,
    /// The longest words of an error.
    pub(crate) inline_bytes: usize,
}

macro_rules! ensure {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}
pub(crate) use ensure;

impl Account {
    pub(crate) fn new_call(&mut self, client: usize, plan: CallPlan, now_ns: u64) -> usize {
        let deadline_ns = plan.timeout_ns.map(|timeout| now_ns + timeout);
        self.calls.push(CallRecord {
            plan,
            client,
            sent: None,
            deadline_ns,
            told: None,
            is_hostile: false,
            arrived_ns: None,
            executions: 0,
            is_answered: false,
        });
        self.calls.len() - 1
    }

    pub(crate) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// A request has come to a server session. Its body is compared later, when a handler gets it.
    pub(crate) fn on_arrived(
        &mut self,
        number: u64,
        connection: usize,
        id: CallId,
        now_ns: u64,
    ) -> Result<usize, Broken> {
        let uid = usize::try_from(number).ok().filter(|uid| *uid < self.calls.len());
        let uid = uid.ok_or_else(|| format!("a request of method {number:#x} arrived, which nobody sent"))?;
        let call = &mut self.calls[uid];
        let sent = call.sent.map(|(connection, id, _)| (connection, id));
        ensure!(sent == Some((connection, id)), "call {uid} was sent as {sent:?}, and arrived as {connection}, {id:?}");
        ensure!(call.arrived_ns.is_none(), "call {uid} arrived twice");
        call.arrived_ns = Some(now_ns);
        Ok(uid)
    }

    /// The request is as the client sent it.
    pub(crate) fn check_request(&self, uid: usize, flags: u8, body: &[u8], has_deadline: bool) -> Result<(), Broken> {
        let plan = &self.calls[uid].plan;
        ensure!(flags == plan.flags, "call {uid} has flags {flags}, not {}", plan.flags);
        let is_same = body == body_of(uid as u64, plan.filling, plan.body_bytes);
        ensure!(is_same, "call {uid} arrived with other bytes: {} of {}", body.len(), plan.body_bytes);
        // Deadlines that are too far away do not travel.
        let expects = plan.timeout_ns.is_some_and(|timeout| timeout < 1 << 42);
        ensure!(has_deadline == expects, "call {uid} arrived with a deadline: {has_deadline}");
        Ok(())
    }

    /// A handler starts. The deadline is the one by the server's clock.
    pub(crate) fn on_started(&mut self, uid: usize, now_ns: u64) -> Result<(), Broken> {
        let call = &mut self.calls[uid];
        call.executions += 1;
        ensure!(call.executions == 1, "call {uid} was executed again");
        let is_never = matches!(call.told, Some(Told::Error(_, Executed::No)));
        ensure!(!is_never, "call {uid} was executed, and its caller knows that it was not");
        if let (Some(deadline), Some(arrived), Some((_, _, sent))) = (call.deadline_ns, call.arrived_ns, call.sent) {
            ensure!(now_ns < arrived + (deadline - sent), "the handler of call {uid} started after the deadline");
        }
        self.see("executed");
        Ok(())
    }

    /// The handler has answered to the session.
    pub(crate) fn on_answered(&mut self, uid: usize) {
        self.calls[uid].is_answered = true;
    }

    /// The end of a call that was never sent, or is told without the session.
    pub(crate) fn end(&mut self, uid: usize, told: Told) -> Result<(), Broken> {
        let call = &mut self.calls[uid];
        ensure!(call.told.is_none(), "call {uid} ended twice: {:?}, {told:?}", call.told);
        let is_true = !matches!(told, Told::Error(_, Executed::No)) || call.executions == 0 || call.is_hostile;
        ensure!(is_true, "call {uid} was executed, and its caller hears that it was not");
        call.told = Some(told);
        Ok(())
    }

    /// The caller hears of a reply.
    pub(crate) fn on_reply(&mut self, uid: usize, flags: u8, body: &[u8]) -> Result<(), Broken> {
        self.end(uid, Told::Reply)?;
        let call = &self.calls[uid];
        if call.is_hostile {
            return Ok(());
        }
        let plan = &call.plan;
        ensure!(call.executions == 1 && call.is_answered, "call {uid} has a reply that nobody sent");
        ensure!(plan.code == Code::Ok, "call {uid} succeeds, and its handler failed");
        ensure!(flags == plan.reply_flags, "the reply of {uid} has flags {flags}");
        let is_same = body == reply_of(uid as u64, plan.filling, plan.reply_bytes);
        ensure!(is_same, "the reply of {uid} has other bytes: {} of {}", body.len(), plan.reply_bytes);
        self.see("reply");
        Ok(())
    }

    /// The caller hears of an error.
    pub(crate) fn on_error(&mut self, uid: usize, status: &Status, around: &Circumstances) -> Result<(), Broken> {
        let executed = status.executed();
        self.end(uid, Told::Error(status.code(), executed))?;
        let call = &self.calls[uid];
        if call.is_hostile {
            return Ok(());
        }
        if let Some(deadline) = call.deadline_ns {
            let late = around.now_ns.saturating_sub(deadline);
            ensure!(late < DEADLINE_GRACE_NS, "call {uid} ends {late} ns after its deadline");
        }
        match executed {
            Executed::Yes => {
                ensure!(call.executions == 1, "call {uid} was executed {} times, not once", call.executions);
            }
            Executed::No => self.see("never executed"),
            Executed::Unknown => self.see("unknown outcome"),
        }
        let is_known = self.is_own_error(uid, status, around) || self.is_system_error(uid, status, around);
        ensure!(is_known, "call {uid} fails for no reason: {status}");
        Ok(())
    }

    /// The handler said so. Long words are cut.
    fn is_own_error(&mut self, uid: usize, status: &Status, around: &Circumstances) -> bool {
        let call = &self.calls[uid];
        let words = words_of(uid as u64, call.plan.reply_bytes);
        let is_cut = status.message().len() < words.len() && status.message().len() < around.inline_bytes;
        let is_own = call.is_answered
            && status.executed() == Executed::Yes
            && status.code() == call.plan.code
            && words.starts_with(status.message())
            && !is_cut;
        if is_own {
            self.see("error of a handler");
        }
        is_own
    }

    fn is_system_error(&mut self, uid: usize, status: &Status, around: &Circumstances) -> bool {
        let call = &self.calls[uid];
        let plan = &call.plan;
        let (what, is_true) = match (status.code(), status.executed()) {
            (Code::DeadlineExceeded, _) => {
                // The time that is left travels in whole microseconds.
                ("deadline", call.deadline_ns.is_some_and(|deadline| deadline <= around.now_ns + 1_000))
            }
            (Code::Unavailable, Executed::No) => ("refused by a drain", around.is_draining),
            (Code::Unavailable, _) => ("connection lost", !around.is_up),
            (Code::ResourceExhausted, Executed::Yes) => {
                let is_too_long = plan.reply_bytes > around.max_message_bytes;
                ("reply without room", is_too_long || (around.may_be_busy && plan.reply_bytes > around.inline_bytes))
            }
            _ => return false,
        };
        if is_true {
            self.see(what);
        }
        is_true
    }
}
