//! Answering requests.

use super::connection::{Belongings, Stage, Wish};
use super::error::HubError;
use super::server::{Answer, Server};
use crate::channel::Parcel;
use crate::mad::Frame;
use crate::message::{self, ErrorCode, Reply, Request, VERSION};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Most slots of one process.
const MAX_SLOTS_PER_CLIENT: usize = 64;

impl Server {
    /// Answers one message. What is not of the protocol, or comes at the wrong time, ends the
    /// connection.
    ///
    /// # Errors
    /// Only if the hub itself cannot go on.
    pub(super) fn answer(&mut self, id: u64, parcel: Parcel) -> Result<Answer, HubError> {
        if Frame::is_frame(&parcel.bytes) && self.connections.get(&id).is_some_and(|c| c.managing.is_some()) {
            return Ok(match self.take_frame(id, &parcel.bytes) {
                Some(()) => Answer::Later,
                None => self.malformed("the frame is not understood".into()),
            });
        }
        let request = match Request::decode(&parcel.bytes) {
            Ok(request) => request,
            Err(error) => return Ok(self.malformed(format!("the message is not understood: {error}"))),
        };
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(Answer::Later) };
        if !connection.is_member() {
            connection.since = Instant::now();
        }
        let mut descriptors = parcel.descriptors;
        match (&connection.stage, request) {
            (Stage::Fresh, Request::Hello { version, pid, program }) => Ok(self.hello(id, version, pid, &program)),
            (Stage::Fresh, _) => Ok(self.out_of_order("the first message must be a hello")),
            (Stage::Greeted, Request::Attach { slot, counters, shm }) => {
                Ok(self.attach_or_wait(id, slot, Belongings::take(counters, shm, descriptors)))
            }
            (Stage::Greeted, Request::Reattach { slots, counters, shm }) => {
                let proofs_end = descriptors.len().saturating_sub(Belongings::count(counters, shm));
                let belongings = Belongings::take(counters, shm, descriptors.split_off(proofs_end));
                self.reattach(id, &slots, descriptors, belongings)
            }
            (Stage::Attached, Request::Introduce { slot }) => Ok(self.introduce(id, slot, descriptors)),
            (Stage::Greeted, Request::Manage { number }) => Ok(self.grant_or_wait(id, Wish::Manage(number))),
            (Stage::Managing, Request::Bind { token, spec, listening, again }) => {
                Ok(self.bind(id, token, &spec, listening, again))
            }
            (Stage::Managing, Request::Listen { token }) => Ok(self.listen_on(id, token)),
            (Stage::Managing, Request::Unbind { token }) => Ok(self.unbind(id, token)),
            (Stage::Attached, Request::MoreSlots { count }) => Ok(self.more_slots(id, count)),
            (Stage::Attached, Request::Release { slot }) => Ok(self.release(id, slot)),
            (Stage::Greeted | Stage::Attached | Stage::Managing, request) => Ok(self.answer_question(id, request)),
            (Stage::Waiting(_), _) => Ok(self.out_of_order("the last request is not answered yet")),
        }
    }

    /// Requests that anybody may make.
    fn answer_question(&mut self, id: u64, request: Request) -> Answer {
        match request {
            Request::Status => say(Reply::Status(Box::new(self.status()))),
            Request::Devices => say(Reply::Devices { devices: self.devices.list().to_vec() }),
            Request::Ping => say(Reply::Done),
            Request::KeepUp { idle_timeout_ms } => {
                self.options.idle_timeout = idle_timeout_ms.map(Duration::from_millis);
                say(Reply::Done)
            }
            Request::Shutdown { force } => self.shut_down(id, force),
            _ => self.out_of_order("the message is not allowed now"),
        }
    }

    fn hello(&mut self, id: u64, version: u32, pid: u32, program: &str) -> Answer {
        if version != VERSION {
            self.counters.refused_others += 1;
            return Answer::Last(Reply::Welcome { version: VERSION, pid: std::process::id() });
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.program = message::clean_program(program);
            if connection.pid == 0 {
                connection.pid = pid;
            }
            connection.enter(Stage::Greeted);
        }
        say(Reply::Welcome { version: VERSION, pid: std::process::id() })
    }

    fn attach_or_wait(&mut self, id: u64, slot: Option<u8>, belongings: Option<Belongings>) -> Answer {
        match belongings {
            Some(belongings) => self.grant_or_wait(id, Wish::Slot { slot, belongings }),
            None => self.malformed("the wrong number of descriptors came along".into()),
        }
    }

    /// Grants a wish, later if there is no port yet.
    fn grant_or_wait(&mut self, id: u64, wish: Wish) -> Answer {
        if self.port.group().is_some() {
            return self.grant(id, wish);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.enter(Stage::Waiting(wish));
        }
        Answer::Later
    }

    /// Grants a wish.
    pub(super) fn grant(&mut self, id: u64, wish: Wish) -> Answer {
        match wish {
            Wish::Slot { slot, belongings } => self.attach(id, slot, belongings),
            Wish::Manage(number) => self.manage(id, number),
        }
    }

    /// Hands out a slot.
    fn attach(&mut self, id: u64, wanted: Option<u8>, belongings: Belongings) -> Answer {
        let Some(group) = self.port.group_mut() else { return Answer::Later };
        let keeper = match group.keeper() {
            Ok(keeper) => keeper,
            Err(error) => return self.failed(&error),
        };
        let (slot, socket) = match group.hand_out(wanted, id) {
            Ok(Some(handed)) => handed,
            Ok(None) => return self.no_slot(),
            Err(error) => return self.failed(&error),
        };
        self.counters.attached += 1;
        self.attached(id, vec![slot], belongings, vec![keeper, socket])
    }

    /// Gives a process that was attached to an earlier hub its slots again.
    fn reattach(
        &mut self,
        id: u64,
        slots: &[u8],
        mut keeper_and_proofs: Vec<OwnedFd>,
        belongings: Option<Belongings>,
    ) -> Result<Answer, HubError> {
        let distinct = slots.iter().collect::<BTreeSet<_>>().len() == slots.len();
        let sound = distinct && (1..=MAX_SLOTS_PER_CLIENT).contains(&slots.len());
        let belongings = belongings.filter(|_| sound && keeper_and_proofs.len() == 1 + slots.len());
        let Some(belongings) = belongings else {
            return Ok(self.malformed(format!("the wrong number of descriptors came along for slots {slots:?}")));
        };
        let proofs = keeper_and_proofs.split_off(1);
        if let Some(keeper) = keeper_and_proofs.pop()
            && let Err(error) = self.recover(keeper)?
        {
            log::warn!("a keeper is of no use: {error}");
            return Ok(self.denied(format!("the keeper is of no use: {error}")));
        }
        Ok(self.claim(id, slots, &proofs, belongings))
    }

    fn claim(&mut self, id: u64, slots: &[u8], proofs: &[OwnedFd], belongings: Belongings) -> Answer {
        let Some(group) = self.port.group_mut() else { return Answer::Later };
        let mut claim = |(slot, proof): (&u8, &OwnedFd)| group.give_again(*slot, proof.as_fd(), id);
        let outcome: io::Result<Vec<bool>> = slots.iter().zip(proofs).map(&mut claim).collect();
        let granted = outcome.and_then(|granted| Ok((granted, group.keeper()?)));
        match granted {
            Ok((granted, keeper)) if granted.iter().all(|granted| *granted) => {
                self.counters.reattached += 1;
                self.attached(id, slots.to_vec(), belongings, vec![keeper])
            }
            Ok(_) => {
                self.port.take_back(slots, id);
                self.denied(format!("slots {slots:?} are not this process's any more"))
            }
            Err(error) => {
                self.port.take_back(slots, id);
                self.failed(&error)
            }
        }
    }

    /// From now on the connection is that of an attached process.
    fn attached(&mut self, id: u64, slots: Vec<u8>, belongings: Belongings, descriptors: Vec<OwnedFd>) -> Answer {
        if let Some(connection) = self.connections.get_mut(&id) {
            log::info!("process {} ({}) has slots {slots:?}", connection.pid, connection.program);
            connection.slots.clone_from(&slots);
            connection.belongings = belongings;
            connection.enter(Stage::Attached);
        }
        let devices = self.devices.list().to_vec();
        Answer::Say(Reply::Attached { slots, devices }, descriptors)
    }

    /// All of them or none.
    fn more_slots(&mut self, id: u64, count: u8) -> Answer {
        let has = self.connections.get(&id).map_or(0, |connection| connection.slots.len());
        if count == 0 || has + usize::from(count) > MAX_SLOTS_PER_CLIENT {
            return self.denied(format!("a process has at most {MAX_SLOTS_PER_CLIENT} slots"));
        }
        let Some(group) = self.port.group_mut() else { return Answer::Later };
        let (slots, sockets) = match group.hand_out_all(count, id) {
            Ok(Some(handed)) => handed,
            Ok(None) => return self.no_slot(),
            Err(error) => return self.failed(&error),
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.slots.extend(&slots);
        }
        Answer::Say(Reply::Slots { slots }, sockets)
    }

    /// Takes one slot back; a process keeps at least one.
    fn release(&mut self, id: u64, slot: u8) -> Answer {
        let Some(connection) = self.connections.get_mut(&id) else { return Answer::Later };
        if !connection.slots.contains(&slot) || connection.slots.len() == 1 {
            return self.denied(format!("slot {slot} is not one that can be given back"));
        }
        connection.slots.retain(|own| *own != slot);
        self.port.take_back(&[slot], id);
        say(Reply::Done)
    }

    fn shut_down(&mut self, id: u64, force: bool) -> Answer {
        let others = self.connections.iter().filter(|(other, c)| **other != id && c.is_member());
        // A process may have several connections.
        let others: BTreeMap<u32, &str> = others.map(|(_, c)| (c.pid, c.program.as_str())).collect();
        if !others.is_empty() && !force {
            let others: Vec<String> = others.iter().map(|(pid, program)| format!("{pid} ({program})")).collect();
            return say(Reply::error(ErrorCode::InUse, format!("in use by process {}", others.join(", "))));
        }
        self.leaving = true;
        say(Reply::Done)
    }

    pub(super) fn malformed(&mut self, reason: String) -> Answer {
        self.counters.malformed += 1;
        Answer::Last(Reply::error(ErrorCode::Malformed, reason))
    }

    fn out_of_order(&mut self, reason: &str) -> Answer {
        self.counters.out_of_order += 1;
        Answer::Last(Reply::error(ErrorCode::OutOfOrder, reason))
    }

    fn denied(&mut self, reason: String) -> Answer {
        self.counters.denied += 1;
        say(Reply::error(ErrorCode::NotYours, reason))
    }

    fn no_slot(&mut self) -> Answer {
        self.counters.denied += 1;
        let slots = self.port.group().map_or(0, |group| group.capacity());
        say(Reply::error(ErrorCode::NoSlot, format!("not enough of the {slots} slots are free")))
    }

    fn failed(&mut self, error: &io::Error) -> Answer {
        self.counters.denied += 1;
        log::warn!("a request failed: {error}");
        say(Reply::error(ErrorCode::System, error))
    }
}

fn say(reply: Reply) -> Answer {
    Answer::Say(reply, Vec::new())
}
