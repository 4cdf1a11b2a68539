//! Moves of shares: operators' orders, data that have come, hand-overs between members.

use crate::config::wish::ConfigWish;
use crate::config::{ClusterConfig, ShareMove, SlotMove};
use crate::handover::HandOverEnd;
use crate::sim::events::{SimEvent, SimPlant};
use crate::sim::member::TERM_NS;
use crate::sim::world::{SimWorld, TROUBLES_NS};
use crate::slot::SLOTS;

impl SimWorld {
    /// An operator's order at some member.
    pub(super) fn order(&mut self, node: usize) {
        let Some(agent) = &mut self.members[node].agent else { return };
        let Some(config) = agent.right().config() else { return };
        let Some(member) = self.random.choice(&config.members).map(|member| member.id.clone()) else { return };
        let wish = match self.random.u32(..6) {
            0 => ConfigWish::Rebalance,
            1 => ConfigWish::Drain { member },
            2 => ConfigWish::Undrain { member },
            _ => {
                let from = self.random.u16(..SLOTS);
                ConfigWish::Move(SlotMove { from, to: self.random.u16(from..SLOTS), target: member.name })
            }
        };
        self.report.orders += 1;
        agent.wish(wish);
    }

    /// The data of a member have come further.
    pub(super) fn data(&mut self, node: usize) {
        let next_ns = self.now_ns + self.random.u64(1..TERM_NS / 2);
        self.agenda.add(next_ns, SimEvent::Data { node });
        if self.members[node].pause.is_some() {
            return;
        }
        let Some(agent) = &mut self.members[node].agent else { return };
        let Some(config) = agent.right().config() else { return };
        let (me, mut asks) = (agent.right().member().clone(), Vec::new());
        for share in &config.shares {
            let from = share.from;
            match share.hand_over() {
                None if share.primary.as_ref() == Some(&me.name) => {
                    share_wish(&config, share).into_iter().for_each(|wish| agent.wish(wish));
                }
                Some((former, since)) => match agent.right().hand_over(from, since) {
                    Some(HandOverEnd::Awaited { .. }) => asks.push((from, since, former.to_owned())),
                    Some(HandOverEnd::Accepted | HandOverEnd::Lost) => agent.wish(ConfigWish::Arrive { from, since }),
                    // Sometimes a primary loses patience.
                    Some(HandOverEnd::Held) if self.now_ns < TROUBLES_NS && self.random.u32(..4) == 0 => {
                        agent.wish(ConfigWish::TakeBack { from, since });
                    }
                    _ => {}
                },
                None => {}
            }
        }
        for (from, since, former) in asks {
            if self.plant == Some(SimPlant::ImpatientTarget) {
                self.arrive_at(node, from, since);
            } else if let Some(delay_ns) = self.delay(node) {
                self.agenda.add(self.now_ns + delay_ns, SimEvent::Ask { node, from, since, former });
            }
        }
    }

    /// The former primary is asked for the release of a share.
    pub(super) fn ask(&mut self, node: usize, from: u16, since: u64, former: &str) {
        let target = self.members[node].incarnation;
        let Some(at) = self.members.iter().position(|member| member.name == former && member.pause.is_none()) else {
            return;
        };
        let Some(agent) = &self.members[at].agent else { return };
        let releases = match self.plant {
            Some(SimPlant::ServesOn) => agent.right().hand_over(from, since) == Some(HandOverEnd::Held),
            _ => agent.right().release(from, since),
        };
        if let Some(delay_ns) = self.delay(at).filter(|_| releases) {
            let at_ns = self.now_ns + delay_ns;
            self.agenda.add(at_ns, SimEvent::Released { node, from, since, incarnation: target });
        }
    }

    /// The target hears that a share is released. Another life of it throws that away.
    pub(super) fn released(&mut self, node: usize, from: u16, since: u64, incarnation: u64) {
        if self.members[node].incarnation == incarnation {
            self.arrive_at(node, from, since);
        }
    }

    fn arrive_at(&mut self, node: usize, from: u16, since: u64) {
        if let Some(agent) = &mut self.members[node].agent
            && agent.right().accept(from, since)
        {
            self.report.hand_overs += 1;
            agent.wish(ConfigWish::Arrive { from, since });
        }
    }
}

/// The wish of a primary whose share's data have come further.
fn share_wish(config: &ClusterConfig, share: &crate::SlotShare) -> Option<ConfigWish> {
    let from = share.from;
    if let Some(member) = share.joining.first().and_then(|name| config.member(name)) {
        return Some(ConfigWish::Admit { from, member: member.id.clone(), epoch: config.epoch });
    }
    matches!(share.moving, Some(ShareMove::Close { .. })).then_some(ConfigWish::HandOver { from })
}
