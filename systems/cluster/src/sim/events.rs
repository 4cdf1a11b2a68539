//! Events of a simulated cluster, in the order of their moments.

use std::collections::BTreeMap;

use crate::coordinator::{CoordinatorReply, CoordinatorRequest};

/// A planted bug, which the rules must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimPlant {
    /// Clocks run up to 100 times as wrong as they may.
    WildClocks,
    /// A member counts its term from the answer to its beat.
    TermFromAnswer,
    /// Others believe that terms are half as long.
    HalfTerms,
    /// The coordinator replaces a configuration although a deposed member has beaten meanwhile.
    BlindReplace,
    /// The coordinator answers a beat with a picture from before.
    OldPictures,
    /// A primary hands over although clients may still read its memory alone.
    EarlyHandOver,
    /// A target serves without having heard that the share is released.
    ImpatientTarget,
    /// The former primary goes on serving after it has released the share.
    ServesOn,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum SimEvent {
    /// A member's thread runs. The number tells turns that were called off.
    Turn { node: usize, turn: u64 },
    /// The coordinator gets a request.
    Arrive { node: usize, call: u64, request: CoordinatorRequest },
    /// A member gets the answer.
    Reply { node: usize, call: u64, reply: CoordinatorReply },
    /// A member waits no longer for it.
    Timeout { node: usize, call: u64 },
    /// A member's data have come further: a share is whole, or a target asks for its release.
    Data { node: usize },
    /// A target asks the former primary for the release of a share.
    Ask { node: usize, from: u16, since: u64, former: String },
    /// The share is released to the target, which asked as this life.
    Released { node: usize, from: u16, since: u64, incarnation: u64 },
    /// A fault of random kind.
    Fault,
    /// A member starts again.
    Restart { node: usize },
    /// A member that paused goes on.
    Resume { node: usize },
}

impl SimEvent {
    /// The machine whose process has to take it; it waits for the end of a pause. Only by such an event does a right begin.
    pub(crate) fn of_process(&self) -> Option<usize> {
        match self {
            SimEvent::Turn { node, .. }
            | SimEvent::Reply { node, .. }
            | SimEvent::Timeout { node, .. }
            | SimEvent::Released { node, .. } => Some(*node),
            _ => None,
        }
    }
}

/// The events to come.
#[derive(Debug, Default)]
pub(crate) struct SimAgenda {
    events: BTreeMap<(u64, u64), SimEvent>,
    added: u64,
}

impl SimAgenda {
    pub(crate) fn add(&mut self, at_ns: u64, event: SimEvent) {
        self.added += 1;
        self.events.insert((at_ns, self.added), event);
    }

    pub(crate) fn next(&mut self) -> Option<(u64, SimEvent)> {
        let ((at_ns, _), event) = self.events.pop_first()?;
        Some((at_ns, event))
    }
}
