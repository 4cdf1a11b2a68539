//! The members, the coordinator and the network of one seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::{ClusterConfig, HashSlot, MemberId};
use fastrand::Rng;

use crate::sender::{BatchAck, BatchHead, HandOverAnswer, HandOverAsk, ReplicaBatch};
use crate::sim::history::{KeyOp, Recorded, is_linearizable};
use crate::sim::node::{SimLife, SimNode, SimStore};
use crate::sim::tests::SimBug;

/// Keys that clients use.
pub(super) const KEYS: usize = 7;
/// The length of a short term, in steps of the clock.
const TERM: u64 = 200;
const STEPS: usize = 1500;
/// After the faults: enough for many moves in long terms. It ends when all members agree.
const REST: usize = 100_000;

/// A message between two members.
pub(super) enum SimMessage {
    /// To the process with that number.
    Batch(ReplicaBatch, u32),
    Ack(BatchHead, Option<BatchAck>),
    /// A target and the former primary that it asks.
    Ask(MemberId, MemberId, HandOverAsk),
    /// The target that asked, and the answer.
    Told(MemberId, HandOverAsk, HandOverAnswer),
    /// No message: the process of that machine is killed.
    Kill(usize),
}

/// Counts of a seed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SimReport {
    pub(super) answers: u64,
    pub(super) reads: u64,
    pub(super) epochs: u64,
    pub(super) crashes: u64,
    pub(super) orders: u64,
    pub(super) hand_overs: u64,
    pub(super) returns: u64,
}

/// The disks of the members of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimDisks {
    None,
    /// Everything that is answered survives a crash.
    Strict,
    /// Some of what was answered last may be lost.
    Loose,
}

pub(super) struct SimWorld {
    pub(super) random: Rng,
    pub(super) bug: Option<SimBug>,
    pub(super) now: u64,
    pub(super) nodes: Vec<SimNode>,
    pub(super) configs: Vec<Arc<ClusterConfig>>,
    pub(super) history: Vec<Vec<Recorded>>,
    pub(super) values: u64,
    pub(super) report: SimReport,
    /// Messages, by the moment of their arrival and a number.
    pub(super) network: BTreeMap<(u64, u64), SimMessage>,
    pub(super) sent: u64,
    /// Replacements of the configuration that were sent: the epoch that they expect.
    pub(super) replaces: Vec<ClusterConfig>,
    /// Of lives that have crashed or are cut off: nobody deposes them before.
    terms: BTreeMap<String, u64>,
    pub(super) is_calm: bool,
    pub(super) disks: SimDisks,
    /// The length of a term. In a long one, a move may begin and end.
    pub(super) term: u64,
    /// Nobody crashes or is cut off. So slots move all the time, and moves come to their ends.
    pub(super) is_steady: bool,
}

impl SimWorld {
    pub(super) fn new(seed: u64, bug: Option<SimBug>) -> SimWorld {
        let mut random = Rng::with_seed(seed);
        let count = random.usize(2..=4);
        let disks = [SimDisks::None, SimDisks::Strict, SimDisks::Loose][random.usize(..3)];
        let is_steady = random.u32(..3) == 0;
        let term = if random.bool() { TERM } else { 5 * TERM };
        let is_strict = disks == SimDisks::Strict && bug != Some(SimBug::AnswerUnlogged);
        let node =
            |number| SimNode { life: Some(SimLife::new(number, 1, is_strict)), lives: 1, processes: 1, disk: None };
        let nodes: Vec<SimNode> = (0..count).map(node).collect();
        let members = nodes.iter().filter_map(|node| node.life.as_ref().map(|life| life.member.clone()));
        let config = Arc::new(ClusterConfig::form(members.collect(), random.u8(1..=2)));
        SimWorld {
            random,
            bug,
            now: 1,
            nodes,
            configs: vec![config],
            history: vec![Vec::new(); KEYS],
            values: 0,
            report: SimReport::default(),
            network: BTreeMap::new(),
            sent: 0,
            replaces: Vec::new(),
            terms: BTreeMap::new(),
            is_calm: false,
            disks,
            term,
            is_steady,
        }
    }

    pub(super) fn run(&mut self) -> Result<SimReport, String> {
        for _ in 0..STEPS {
            self.step();
        }
        self.is_calm = true;
        for node in &mut self.nodes {
            node.life.iter_mut().for_each(|life| life.cut_until = 0);
        }
        for at in 0..REST {
            self.step();
            self.beat(at % self.nodes.len());
            if at % 100 == 0 && self.differs().is_none() {
                break;
            }
        }
        self.report.epochs = self.config().epoch;
        if let Some(why) = self.differs() {
            return Err(why);
        }
        for (key, history) in self.history.iter_mut().enumerate() {
            // A GET without an answer says nothing.
            history.retain(|one| one.end.is_some() || !matches!(one.op, KeyOp::Get(_)));
            if !is_linearizable(history) {
                return Err(format!("the operations on k{key} are not linearizable: {history:?}"));
            }
        }
        Ok(self.report)
    }

    pub(super) fn config(&self) -> Arc<ClusterConfig> {
        Arc::clone(self.configs.last().expect("there is always one"))
    }

    fn replace(&mut self, next: ClusterConfig) {
        assert_eq!(next.check(), Ok(()));
        self.configs.push(Arc::new(next));
    }

    fn step(&mut self) {
        self.now += self.random.u64(1..4);
        while self.network.first_key_value().is_some_and(|((at, _), _)| *at <= self.now) {
            let message = self.network.pop_first().map(|(_, message)| message);
            message.into_iter().for_each(|message| self.arrive(message));
        }
        let node = self.random.usize(..self.nodes.len());
        match self.random.u32(..100) {
            0..20 if !self.is_calm => self.request(node),
            20..28 if !self.is_calm => self.read(node),
            28..40 => {
                self.reply(node);
                if self.random.bool() {
                    self.sync(node);
                }
            }
            40..55 => {
                self.send(node);
                self.ask(node);
            }
            55..65 => self.with(node, |life, bug| life.copy(bug)),
            // As many beats in a long term as in a short one.
            65..75 if self.random.u64(..self.term) < TERM => self.beat(node),
            75..80 => self.wish(node),
            80..85 => self.execute(),
            85..90 => self.depose(),
            90..94 => {
                let now = self.now;
                self.with(node, |life, _| life.sender.tick(now));
            }
            94 | 98 if self.is_steady => self.order(node),
            94 if !self.is_calm => self.crash(node),
            95..97 => self.restart(node),
            97 => self.order(node),
            98 if !self.is_calm => {
                let until = self.now + self.random.u64(..3 * self.term);
                self.with(node, |life, _| life.cut_until = until);
            }
            _ => {}
        }
    }

    fn with(&mut self, node: usize, act: impl FnOnce(&mut SimLife, Option<SimBug>)) {
        let bug = self.bug;
        if let Some(life) = &mut self.nodes[node].life {
            act(life, bug);
            life.collect();
        }
    }

    /// A beat reaches the coordinator: the member learns the configuration, or joins.
    fn beat(&mut self, node: usize) {
        let (config, now, bug) = (self.config(), self.now, self.bug);
        let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != node);
        let alive: Vec<MemberId> =
            others.filter_map(|(_, node)| node.life.as_ref().map(|life| life.member.id.clone())).collect();
        let lives = |name: &str| config.member(name).is_some_and(|member| alive.contains(&member.id));
        let Some(life) = self.nodes[node].life.as_mut().filter(|life| life.cut_until <= now) else { return };
        let next = if !config.has(&life.member.id) {
            // It knows the configuration before it has a part in it.
            life.learn(&config, 0);
            config.join(&life.member)
        } else if life.before.is_some() && bug != Some(SimBug::ReturnsUnasked) {
            config.returned(&life.member.id, lives)
        } else {
            return life.learn(&config, now + self.term);
        };
        if let Some(next) = next {
            life.come_back(&next);
            self.replace(next);
        }
    }

    /// The log of a member is synced: answers and acknowledgements need not wait for it any more.
    fn sync(&mut self, node: usize) {
        let acks = self.nodes[node].life.as_mut().map(SimLife::sync).unwrap_or_default();
        acks.into_iter().for_each(|(head, ack)| self.post(SimMessage::Ack(head, Some(ack))));
    }

    /// A member asks for what its sender wishes. The request may come late.
    fn wish(&mut self, node: usize) {
        let (config, now) = (self.config(), self.now);
        let Some(life) = &mut self.nodes[node].life else { return };
        let is_known = life.sender.roles().epoch() == config.epoch;
        let Some(wish) = life.wishes.first().cloned().filter(|_| is_known) else { return };
        if !life.is_time(&wish, now) {
            return life.wishes.rotate_left(1);
        }
        match config.granted(&wish, &life.member.id) {
            Some(next) => self.replaces.push(next),
            None => drop(life.wishes.remove(0)),
        }
    }

    /// The coordinator executes one of the requests. Those that were made from an older configuration fail.
    fn execute(&mut self) {
        let epoch = self.config().epoch + 1;
        self.replaces.retain(|next| next.epoch == epoch);
        if !self.replaces.is_empty() {
            let at = self.random.usize(..self.replaces.len());
            let next = self.replaces.swap_remove(at);
            self.replace(next);
        }
    }

    /// Some member without a term is deposed.
    fn depose(&mut self) {
        let config = self.config();
        let Some(member) = self.random.choice(config.members.iter()) else { return };
        let lives = self.nodes.iter().filter_map(|node| node.life.as_ref());
        let alive = lives.clone().find(|life| life.member.id == member.id);
        let until = alive.map_or_else(|| self.terms.get(&member.id.name).copied().unwrap_or(0), |life| life.until);
        if self.now > until + 5
            && let Some(next) = config.lose(&member.id)
        {
            self.replace(next);
        }
    }

    fn crash(&mut self, node: usize) {
        // Seldom enough that data stay.
        match self.random.u32(..9) {
            0..3 => self.kill(node),
            // A power cut.
            3 if self.disks != SimDisks::None => (0..self.nodes.len()).for_each(|node| self.kill(node)),
            _ => {}
        }
    }

    fn kill(&mut self, node: usize) {
        if let Some(life) = self.nodes[node].life.take() {
            self.report.crashes += 1;
            self.terms.insert(life.member.id.name.clone(), life.until);
            life.acks.into_iter().for_each(|(_, head, _)| self.post(SimMessage::Ack(head, None)));
            // One that crashes before the others know what it may lack has its old disk still.
            let disk = life.before.is_none().then_some(life.table);
            self.nodes[node].disk = disk.filter(|_| self.disks != SimDisks::None);
        }
    }

    fn restart(&mut self, node: usize) {
        let (name, config) = (format!("m{node}"), self.config());
        let is_over = self.terms.get(&name).is_none_or(|until| self.now > *until + 5);
        let is_kept = self.nodes[node].disk.is_some() && self.random.u32(..4) > 0;
        let SimNode { life, lives, processes, disk } = &mut self.nodes[node];
        // A beat of another life waits until the one before is deposed, one of the same life for the end of its term.
        let is_mine = config.member(&name).is_none_or(|member| is_kept && member.id.incarnation == *lives);
        if life.is_some() || !is_mine || !is_over {
            return;
        }
        *processes += 1;
        let is_strict = self.disks == SimDisks::Strict && self.bug != Some(SimBug::AnswerUnlogged);
        let Some(disk) = disk.take().filter(|_| is_kept) else {
            *lives += 1;
            *life = Some(SimLife::new(node, *lives, is_strict));
            return;
        };
        self.report.returns += 1;
        let mut new = SimLife::new(node, *lives, is_strict);
        new.table = disk.after_crash(self.random.usize(..8));
        new.before = (self.disks == SimDisks::Loose).then_some(disk.rows);
        new.sender.resume(new.table.last(), *processes);
        *life = Some(new);
    }

    fn send(&mut self, node: usize) {
        let now = self.now;
        let Some(life) = &mut self.nodes[node].life else { return };
        let members: Vec<_> = life.sender.members().cloned().collect();
        let batches: Vec<_> = members.iter().filter_map(|to| life.sender.next_batch(to, now)).collect();
        for batch in batches {
            let number = batch.head.to.name[1..].parse::<usize>().expect("names have numbers");
            let process = self.nodes[number].processes;
            self.post(SimMessage::Batch(batch, process));
        }
    }

    pub(super) fn post(&mut self, message: SimMessage) {
        let chance = if self.is_calm { 99 } else { self.random.u32(..100) };
        let head = match &message {
            SimMessage::Batch(batch, _) => batch.head.clone(),
            SimMessage::Ack(head, _) => head.clone(),
            SimMessage::Ask(..) | SimMessage::Told(..) | SimMessage::Kill(_) => return self.post_move(message, chance),
        };
        self.sent += 1;
        let delay = if chance < 6 { self.random.u64(..2 * self.term) } else { self.random.u64(1..12) };
        if chance < 10 {
            // Lost, or late: the sender gives up. A late message still comes.
            let failed = (self.now + self.random.u64(1..60), self.sent);
            self.network.insert(failed, SimMessage::Ack(head, None));
            self.sent += 1;
        }
        if !(6..10).contains(&chance) {
            self.network.insert((self.now + delay, self.sent), message);
        }
    }

    fn arrive(&mut self, message: SimMessage) {
        let (bug, now, is_late) = (self.bug, self.now, self.random.u32(..20) == 0);
        let holds = self.disks == SimDisks::Strict && bug != Some(SimBug::AckUnlogged);
        match message {
            SimMessage::Ask(target, former, ask) => self.asked(&target, &former, ask),
            SimMessage::Told(target, ask, answer) => self.told(&target, ask, &answer),
            SimMessage::Kill(node) if !self.is_calm => self.kill(node),
            SimMessage::Kill(_) => {}
            SimMessage::Batch(ReplicaBatch { head, bytes }, process) => {
                let there = self.nodes.iter_mut().filter(|node| node.processes == process);
                let mut lives = there.filter_map(|node| node.life.as_mut());
                let Some(life) = lives.find(|life| life.member.id.name == head.to.name) else {
                    return self.post(SimMessage::Ack(head, None));
                };
                let SimLife { receiver, sender, table, acks, .. } = life;
                let mut store = SimStore { sender, table, bug, is_late };
                match receiver.take(&head, &bytes, &mut store) {
                    Ok(ack) if holds && table.synced() < table.mark() => acks.push((table.mark(), head, ack)),
                    taken => self.post(SimMessage::Ack(head, taken.ok())),
                }
            }
            SimMessage::Ack(head, ack) => {
                let mut lives = self.nodes.iter_mut().filter_map(|node| node.life.as_mut());
                if let Some(life) = lives.find(|life| life.member.id == head.from) {
                    life.sender.answered(&head, ack, now);
                    life.collect();
                }
            }
        }
    }

    /// The reason why members do not agree, if they do not.
    fn differs(&self) -> Option<String> {
        let config = self.config();
        let life_of = |name: &String| {
            let id = &config.member(name)?.id;
            self.nodes.iter().filter_map(|node| node.life.as_ref()).find(|life| life.member.id == *id)
        };
        for share in config.shares.iter().filter(|share| share.primary.is_some()) {
            let rows = |life: &SimLife| -> Vec<_> {
                let mine =
                    life.table.rows.iter().filter(|(key, _)| share.slots().contains(&HashSlot::of_key(key).number()));
                mine.map(|(key, (value, _))| (key.clone(), *value)).collect()
            };
            let Some(primary) = share.primary.as_ref().and_then(life_of) else {
                return Some(format!("the primary of {} is gone, and still in the configuration", share.from));
            };
            let wanted = usize::from(config.replicas).min(self.nodes.len() - 1);
            if share.backups.len() != wanted || !share.joining.is_empty() {
                return Some(format!("{} has the backups {:?}, not {wanted}: {config:?}", share.from, share.backups));
            }
            if share.moving.is_some() {
                return Some(format!("{} still moves: {share:?}", share.from));
            }
            for backup in &share.backups {
                let Some(backup) = life_of(backup) else { return Some(format!("a backup of {} is gone", share.from)) };
                if rows(backup) != rows(primary) {
                    return Some(format!("{} has {:?}, its backup {:?}", share.from, rows(primary), rows(backup)));
                }
            }
        }
        self.keeps_foreign_keys()
    }
}
