//! The tasks that wait for a stream socket: one for each kind of news.

use std::task::Waker;

use smallvec::SmallVec;

use super::core::StreamState;
use super::flow::StreamFlow;

/// The news that a task waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskWant {
    /// The connection is made, or is not.
    Open,
    /// There are bytes to read, or there will never be more.
    Read,
    /// Bytes can be sent, or never again.
    Write,
    /// The next step of the end can be taken.
    End,
}

const WANTS: [TaskWant; 4] = [TaskWant::Open, TaskWant::Read, TaskWant::Write, TaskWant::End];

/// Wakers to call.
pub(super) type DueWakers = SmallVec<[Waker; 2]>;

/// The wakers of waiting tasks: the last one for each kind of news.
#[derive(Debug, Default)]
pub(super) struct WaitingTasks {
    wakers: [Option<Waker>; WANTS.len()],
    count: usize,
}

impl WaitingTasks {
    /// Remembers a task; the one before it is forgotten.
    pub(super) fn note(&mut self, want: TaskWant, waker: &Waker) {
        match &mut self.wakers[want as usize] {
            Some(known) => known.clone_from(waker),
            none => {
                *none = Some(waker.clone());
                self.count += 1;
            }
        }
    }

    /// Forgets the task that waits for that.
    pub(super) fn forget(&mut self, want: TaskWant) {
        self.count -= usize::from(self.wakers[want as usize].take().is_some());
    }

    /// True if nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl StreamState {
    /// True if the news is there.
    pub(super) fn has(&mut self, want: TaskWant) -> bool {
        if self.is_opening() {
            return false;
        }
        match want {
            TaskWant::Open => true,
            TaskWant::Read => self.has_data() || !self.readable,
            TaskWant::Write => !self.writable || self.can_send_data() && self.may_go_on(),
            TaskWant::End if !self.is_connected() => true,
            TaskWant::End if self.farewell.is_some() => self.has_control_slot(),
            TaskWant::End => self.is_all_sent(),
        }
    }

    /// Takes the wakers of tasks whose news is there.
    pub(super) fn take_due(&mut self) -> DueWakers {
        let mut due = DueWakers::new();
        if self.tasks.is_empty() {
            return due;
        }
        for want in WANTS {
            if self.tasks.wakers[want as usize].is_some() && self.has(want) {
                due.extend(self.tasks.wakers[want as usize].take());
                self.tasks.count -= 1;
            }
        }
        due
    }

    /// Whether the sending task has its turn.
    fn may_go_on(&mut self) -> bool {
        let may = !self.behind_others || self.is_all_sent();
        self.behind_others &= !may;
        may
    }

    pub(super) fn has_control_slot(&self) -> bool {
        self.flow.as_ref().is_some_and(|flow: &StreamFlow| flow.outgoing.has_control())
    }
}
