//! The events of each connection, checked apart from the code under test.

use std::collections::BTreeMap;

use cm::CmEvent;

use crate::check::{Outcome, Violation, ensure};

/// The state of a connection as one end sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectionPhase {
    /// Client: asked.
    Asked,
    /// Client: has the answer.
    Replied,
    /// Server: was asked.
    Requested,
    /// Server: answered.
    Accepted,
    /// Either: connected.
    Established,
    /// Either: disconnects.
    Leaving,
    /// Either: was asked to disconnect.
    Released,
    /// Over; at most the end of TIME-WAIT is to come.
    Over,
    /// Over, and nothing is to come.
    Done,
}

/// The phase after an event; an error if the event may not come now.
pub(crate) fn after(phase: ConnectionPhase, event: &CmEvent) -> Outcome<ConnectionPhase> {
    use ConnectionPhase::{Accepted, Asked, Done, Established, Leaving, Over, Released, Replied, Requested};
    Ok(match (phase, event) {
        (Asked | Accepted, CmEvent::Delayed { .. }) => phase,
        (Asked, CmEvent::Reply(_)) => Replied,
        (Accepted, CmEvent::ReadyToUse { .. }) => Established,
        (Asked | Replied | Requested | Accepted | Established, CmEvent::Rejected(_)) => Over,
        (Asked | Accepted, CmEvent::Unreachable) => Done,
        (Replied | Accepted | Established, CmEvent::DisconnectRequest { .. }) => Released,
        // Without having asked: a new request of the same queue pair showed that the peer had forgotten.
        (Leaving | Established, CmEvent::Disconnected { .. }) => Over,
        (Over, CmEvent::TimewaitExit) => Done,
        (Asked, CmEvent::SidrReply(_) | CmEvent::SidrUnreachable) => Done,
        _ => return Err(Violation::new("events come in legal order", format!("{event:?} while {phase:?}"))),
    })
}

/// The outcome of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Story {
    /// One of the nodes crashed while the attempt was on.
    pub(crate) crashed: bool,
    /// The server has decided on a request.
    pub(crate) accepted: bool,
    /// The server does not want the connection (any more).
    pub(crate) server_refused: bool,
    /// The server learned that no peer confirms.
    pub(crate) server_gave_up: bool,
    pub(crate) server_established: bool,
    pub(crate) client_established: bool,
    /// The client does not want the connection (any more).
    pub(crate) client_left: bool,
    pub(crate) server_left: bool,
    /// The client was told what became of its request.
    pub(crate) answered: bool,
}

/// All stories, by tag.
#[derive(Debug, Default)]
pub(crate) struct Stories(BTreeMap<u32, Story>);

impl Stories {
    pub(crate) fn of(&mut self, tag: u32) -> &mut Story {
        self.0.entry(tag).or_default()
    }

    /// The statement of an event about the other end.
    pub(crate) fn heard(&mut self, tag: u32, client: bool, event: &CmEvent) -> Outcome {
        let story = self.of(tag);
        let rule = "an end hears what the other end did";
        match event {
            CmEvent::Reply(_) => {
                ensure!(rule, story.accepted, "attempt {tag}: a reply that nobody sent");
                story.answered = true;
            }
            CmEvent::ReadyToUse { .. } => {
                ensure!(rule, story.client_established, "attempt {tag}: confirmed by nobody");
                story.server_established = true;
            }
            CmEvent::DisconnectRequest { .. } => {
                let asked = if client { story.server_left } else { story.client_left };
                ensure!(rule, asked || story.crashed, "attempt {tag}: released by nobody");
                story.server_established |= !client;
            }
            CmEvent::Unreachable if !client => story.server_gave_up = true,
            CmEvent::Rejected(_) | CmEvent::Unreachable | CmEvent::SidrReply(_) | CmEvent::SidrUnreachable => {
                story.answered |= client;
            }
            _ => {}
        }
        Ok(())
    }

    /// When all is over: did both ends agree?
    pub(crate) fn finish(&self) -> Outcome {
        for (tag, story) in self.0.iter().filter(|(_, story)| !story.crashed) {
            let rule = "both ends agree";
            ensure!(
                rule,
                !story.client_established || story.server_established || story.server_refused || story.server_gave_up,
                "attempt {tag}: established at the client only: {story:?}"
            );
            ensure!(
                rule,
                !story.server_established || story.client_established,
                "attempt {tag}: established at the server only: {story:?}"
            );
            ensure!(rule, story.answered || story.client_left, "attempt {tag}: the client was told nothing");
        }
        Ok(())
    }
}
