//! Clients: operations by requests and by READs, and the history of each key.

use crate::sender::ChangeState;
use crate::sim::history::{KeyOp, Recorded};
use crate::sim::node::SimReply;
use crate::sim::tests::SimBug;
use crate::sim::world::{KEYS, SimWorld};

/// Clients. One that was answered long ago knows less than the others.
pub(super) const CLIENTS: usize = 3;

impl SimWorld {
    /// A request of a client to some member.
    pub(super) fn request(&mut self, node: usize) {
        let (key, choice) = (self.random.usize(..KEYS), self.random.u32(..10));
        let (name, now) = (format!("k{key}").into_bytes(), self.now);
        let Some(life) = self.nodes[node].life.as_mut().filter(|life| life.may_serve(&name, now)) else { return };
        let before = life.table.rows.get(&name).map(|(value, _)| *value);
        self.values += 1;
        let value = self.values;
        let op = match choice {
            0..4 => KeyOp::Get(before),
            4..7 => {
                life.change(&name, Some(value));
                KeyOp::Put(value)
            }
            7 if before.is_none() => {
                life.change(&name, Some(value));
                KeyOp::Insert(value, true)
            }
            8 => {
                if before.is_some() {
                    life.change(&name, None);
                }
                KeyOp::Delete(before.is_some())
            }
            _ => {
                let Some(before) = before else { return };
                life.change(&name, Some(value));
                KeyOp::Replace(before, value)
            }
        };
        self.history[key].push(Recorded { op, begin: now, end: None });
        let told = (life.sender.roles().epoch(), life.sender.settled(), life.until);
        life.replies.push(SimReply { op: self.history[key].len() - 1, key, number: life.sender.last(), told });
    }

    /// Answers leave a member.
    pub(super) fn reply(&mut self, node: usize) {
        let Some(life) = &mut self.nodes[node].life else { return };
        let mut left = Vec::new();
        for reply in std::mem::take(&mut life.replies) {
            match life.sender.state(reply.number) {
                ChangeState::Waiting if self.bug != Some(SimBug::NoWait) => left.push(reply),
                ChangeState::Unknown => {}
                _ => {
                    self.history[reply.key][reply.op].end = Some(self.now);
                    self.report.answers += 1;
                    let told = &mut life.told[self.random.usize(..CLIENTS)];
                    if told.is_none_or(|(epoch, settled, _)| (epoch, settled) <= (reply.told.0, reply.told.1)) {
                        *told = Some(reply.told);
                    }
                }
            }
        }
        life.replies = left;
    }

    /// A client READs a member's memory alone. It knows the configuration of the epoch that the member has told.
    pub(super) fn read(&mut self, node: usize) {
        let key = self.random.usize(..KEYS);
        let name = format!("k{key}").into_bytes();
        let Some(life) = &self.nodes[node].life else { return };
        let Some((epoch, settled, until)) = life.told[self.random.usize(..CLIENTS)] else { return };
        let slot = cluster::HashSlot::of_key(&name);
        let config = self.configs.iter().find(|config| config.epoch == epoch);
        let is_primary = config.and_then(|config| config.primary(slot)).is_some_and(|one| one.id == life.member.id);
        let may_read = config.and_then(|config| config.share(slot)).is_some_and(|share| share.may_be_read_alone());
        let is_in_term = self.now < until || self.bug == Some(SimBug::NoTerm);
        // An absent key may be the work of a change that is not safe: the client asks.
        let Some((value, stamp)) = life.table.rows.get(&name).copied() else { return };
        let is_safe = stamp <= settled || self.bug == Some(SimBug::ReadUnsettled);
        if is_primary && may_read && is_in_term && is_safe {
            let now = self.now;
            self.history[key].push(Recorded { op: KeyOp::Get(Some(value)), begin: now, end: Some(now) });
            self.report.reads += 1;
        }
    }
}
