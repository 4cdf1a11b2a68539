//! Moves of slots: orders of operators, and hand-overs between members.

use cluster::{ConfigWish, HashSlot, MemberId, SLOTS, SlotMove};

use crate::sender::{HandOverAnswer, HandOverAsk};
use crate::sim::node::SimLife;
use crate::sim::tests::SimBug;
use crate::sim::world::{KEYS, SimDisks, SimMessage, SimWorld};

impl SimWorld {
    /// An operator's order, or the next step for members that are drained.
    pub(super) fn order(&mut self, node: usize) {
        let config = self.config();
        let Some(member) = config.member(&format!("m{node}")).map(|member| member.id.clone()) else { return };
        let wish = match self.random.u32(..6) {
            _ if self.is_calm => ConfigWish::Undrain { member: member.clone() },
            0 => ConfigWish::Rebalance,
            1 => ConfigWish::Drain { member: member.clone() },
            2 => ConfigWish::Undrain { member: member.clone() },
            _ => self.random_move(&member),
        };
        let next = config.granted(&wish, &member).or_else(|| config.draining_further());
        self.report.orders += u64::from(next.is_some());
        self.replaces.extend(next);
    }

    /// Slots around those of a key move.
    fn random_move(&mut self, target: &MemberId) -> ConfigWish {
        let key = self.random.usize(..KEYS);
        let slot = HashSlot::of_key(format!("k{key}").as_bytes()).number();
        let (below, above) = (self.random.u16(..3000), self.random.u16(..3000));
        let (from, to) = (slot.saturating_sub(below), (slot + above).min(SLOTS - 1));
        ConfigWish::Move(SlotMove { from, to, target: target.name.clone() })
    }

    /// Targets ask for the release of their shares.
    pub(super) fn ask(&mut self, node: usize) {
        let now = self.now;
        let Some(life) = &mut self.nodes[node].life else { return };
        let me = life.member.id.clone();
        for (former, ask) in life.sender.asks(now) {
            if self.bug == Some(SimBug::ImpatientTarget) {
                self.told(&me, ask, &HandOverAnswer::Released { in_step: Vec::new() });
            } else {
                self.post(SimMessage::Ask(me.clone(), former, ask));
            }
        }
    }

    pub(super) fn post_move(&mut self, message: SimMessage, chance: u32) {
        let delay = if chance < 6 { self.random.u64(..2 * self.term) } else { self.random.u64(1..12) };
        self.sent += 1;
        if !(6..10).contains(&chance) {
            self.network.insert((self.now + delay, self.sent), message);
        }
    }

    fn life_of(&mut self, id: &MemberId) -> Option<&mut SimLife> {
        let lives = self.nodes.iter_mut().filter_map(|node| node.life.as_mut());
        lives.into_iter().find(|life| life.member.id == *id)
    }

    /// A question reaches the former primary.
    pub(super) fn asked(&mut self, target: &MemberId, former: &MemberId, ask: HandOverAsk) {
        let (now, bug) = (self.now, self.bug);
        let Some(life) = self.life_of(former) else { return };
        if bug == Some(SimBug::ReleaseUnsettled) {
            life.sender.forget_unsettled(ask.from);
        }
        let answer = life.sender.asked(target, ask, now);
        if bug == Some(SimBug::DropsEarly) && answer != HandOverAnswer::NotYet {
            let share_of = |key: &[u8]| life.sender.share_of(HashSlot::of_key(key));
            life.table.retain(|key| share_of(key) != Some(ask.from));
        }
        self.post(SimMessage::Told(target.clone(), ask, answer));
    }

    /// The answer reaches the target.
    pub(super) fn told(&mut self, target: &MemberId, ask: HandOverAsk, answer: &HandOverAnswer) {
        let serves = self.life_of(target).is_some_and(|life| life.sender.told(ask, answer));
        self.report.hand_overs += u64::from(serves);
        if serves && !self.is_steady && self.disks != SimDisks::None && self.random.u32(..4) == 0 {
            let number =
                self.nodes.iter().position(|node| node.life.as_ref().is_some_and(|life| life.member.id == *target));
            number.into_iter().for_each(|number| self.kill_soon(number));
        }
    }

    /// The process that serves since a moment ago is killed before the configuration knows.
    fn kill_soon(&mut self, node: usize) {
        let at = self.now + self.random.u64(1..100);
        self.sent += 1;
        self.network.insert((at, self.sent), SimMessage::Kill(node));
    }

    /// A member that has keys of slots in which it has no part.
    pub(super) fn keeps_foreign_keys(&self) -> Option<String> {
        let lives = self.nodes.iter().filter_map(|node| node.life.as_ref());
        let foreign = |life: &SimLife| {
            let mut slots = life.table.rows.keys().map(|key| HashSlot::of_key(key));
            slots.find(|slot| !life.sender.roles().has_part(*slot))
        };
        lives.into_iter().find_map(|life| Some(format!("{} has keys of slot {}", life.member.id.name, foreign(life)?)))
    }
}
