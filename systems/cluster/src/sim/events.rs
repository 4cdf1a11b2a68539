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
    /// A fault of random kind.
    Fault,
    /// A member starts again.
    Restart { node: usize },
    /// A member that paused goes on.
    Resume { node: usize },
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
