//! The members, the coordinator and the network of one seed.

use fastrand::Rng;

use crate::agent::NextStep;
use crate::config::wish::ConfigWish;
use crate::config::{ClusterConfig, MemberId};
use crate::coordinator::{ClusterPicture, CoordinatorReply, CoordinatorRequest};
use crate::local::CoordinatorState;
use crate::sim::events::{SimAgenda, SimEvent, SimPlant};
use crate::sim::member::{SimMember, TERM_NS};
use crate::sim::readers::SimReaders;
use crate::sim::rules;
use crate::sim::run::ClusterSimReport;

const MS: u64 = 1_000_000;
/// The time of faults.
pub(super) const TROUBLES_NS: u64 = 40 * TERM_NS;
/// The time in which everything must come to rest afterwards.
const REST_NS: u64 = 25 * TERM_NS;

pub(crate) struct SimWorld {
    pub(super) random: Rng,
    pub(super) plant: Option<SimPlant>,
    pub(super) now_ns: u64,
    pub(super) agenda: SimAgenda,
    pub(super) members: Vec<SimMember>,
    readers: SimReaders,
    keeps_data: bool,
    replicas: u8,
    form_with: usize,
    state: CoordinatorState,
    /// The pictures of the last beats, for a planted bug.
    old: Vec<ClusterPicture>,
    away_until_ns: u64,
    pub(crate) report: ClusterSimReport,
}

impl SimWorld {
    pub(crate) fn new(seed: u64, plant: Option<SimPlant>) -> SimWorld {
        let mut random = Rng::with_seed(seed);
        let count = random.usize(1..6);
        let mut members: Vec<_> = (0..count).map(|number| SimMember::new(number, &mut random)).collect();
        let keeps_data = random.bool();
        let (replicas, form_with) = (random.u8(..3), random.usize(1..=count));
        let mut agenda = SimAgenda::default();
        for (node, member) in members.iter_mut().enumerate() {
            member.start(keeps_data.then_some(false), replicas, form_with, &mut random);
            agenda.add(random.u64(..TERM_NS), SimEvent::Turn { node, turn: 0 });
            agenda.add(random.u64(..TERM_NS), SimEvent::Data { node });
        }
        agenda.add(random.u64(TERM_NS..5 * TERM_NS), SimEvent::Fault);
        SimWorld {
            random,
            plant,
            now_ns: 0,
            agenda,
            members,
            readers: SimReaders::default(),
            keeps_data,
            replicas,
            form_with,
            state: CoordinatorState::default(),
            old: Vec::new(),
            away_until_ns: 0,
            report: ClusterSimReport::default(),
        }
    }

    /// Runs to the end, or to the first broken rule.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        while let Some((at_ns, event)) = self.agenda.next() {
            if at_ns > TROUBLES_NS + REST_NS {
                break;
            }
            self.now_ns = at_ns;
            let begins_right = event.of_process().is_some() || matches!(event, SimEvent::Data { .. });
            self.happen(event)?;
            if begins_right {
                rules::check_rights(&mut self.members, self.now_ns)?;
                self.readers.check(&self.members, self.now_ns)?;
            }
            self.report.events += 1;
        }
        rules::check_rest(self.config().as_ref(), &self.members, self.now_ns)
    }

    fn config(&self) -> Option<ClusterConfig> {
        self.state.picture().config.map(|(config, _)| config)
    }

    fn happen(&mut self, event: SimEvent) -> Result<(), String> {
        if let Some(node) = event.of_process()
            && let Some(waiting) = &mut self.members[node].pause
        {
            waiting.push(event);
            return Ok(());
        }
        match event {
            SimEvent::Turn { node, turn } if self.members[node].turn == turn => self.turn(node),
            SimEvent::Turn { .. } => {}
            SimEvent::Arrive { node, call, request } => self.arrive(node, call, request)?,
            SimEvent::Reply { node, call, reply } => self.answered(node, call, Some(reply)),
            SimEvent::Timeout { node, call } => self.answered(node, call, None),
            SimEvent::Data { node } => self.data(node),
            SimEvent::Ask { node, from, since, former } => self.ask(node, from, since, &former),
            SimEvent::Released { node, from, since, incarnation } => self.released(node, from, since, incarnation),
            SimEvent::Fault => self.fault(),
            SimEvent::Restart { node } => self.restart(node),
            SimEvent::Resume { node } => {
                for event in self.members[node].pause.take().unwrap_or_default() {
                    self.agenda.add(self.now_ns, event);
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self, node: usize) {
        let member = &mut self.members[node];
        let Some(agent) = &mut member.agent else { return };
        match agent.next(member.clock.show(self.now_ns)) {
            NextStep::Gone => {
                member.crash();
                let at_ns = self.now_ns + self.random.u64(..3 * TERM_NS);
                self.agenda.add(at_ns, SimEvent::Restart { node });
            }
            NextStep::WaitUntil(shown_ns) => {
                let at_ns = member.clock.when(shown_ns, self.now_ns);
                self.agenda.add(at_ns, SimEvent::Turn { node, turn: member.turn });
            }
            NextStep::Call(request) => {
                let patience = member.clock.show(self.now_ns) + agent.beat_ns();
                member.call += 1;
                member.waits = true;
                let call = member.call;
                self.agenda.add(member.clock.when(patience, self.now_ns), SimEvent::Timeout { node, call });
                if let Some(delay_ns) = self.delay(node) {
                    self.agenda.add(self.now_ns + delay_ns, SimEvent::Arrive { node, call, request });
                }
            }
        }
    }

    fn arrive(&mut self, node: usize, call: u64, mut request: CoordinatorRequest) -> Result<(), String> {
        match (&mut request, self.plant) {
            (CoordinatorRequest::Beat { beat, .. }, Some(SimPlant::HalfTerms)) => beat.term_ns /= 2,
            (CoordinatorRequest::Replace { deposed, .. }, Some(SimPlant::BlindReplace)) => {
                let picture = self.state.picture();
                deposed.iter_mut().for_each(|(id, revision)| *revision = picture.last_beat(id));
            }
            _ => {}
        }
        let before = self.config();
        let mut reply = self.state.execute(&request);
        if let (CoordinatorReply::Replaced(true), CoordinatorRequest::Replace { config, .. }) = (&reply, &request) {
            self.report.changes += 1;
            rules::check_change(before.as_ref(), config, &self.members, self.now_ns)?;
        }
        if let CoordinatorReply::Beaten(_, picture) = &mut reply {
            self.old.push(picture.clone());
            if self.plant == Some(SimPlant::OldPictures) {
                *picture = self.old[self.old.len().saturating_sub(self.random.usize(1..8)).max(1) - 1].clone();
            }
        }
        if let Some(delay_ns) = self.delay(node) {
            self.agenda.add(self.now_ns + delay_ns, SimEvent::Reply { node, call, reply });
        }
        Ok(())
    }

    fn answered(&mut self, node: usize, call: u64, reply: Option<CoordinatorReply>) {
        let member = &mut self.members[node];
        let Some(agent) = member.agent.as_mut().filter(|_| member.waits && member.call == call) else { return };
        self.report.lost += u64::from(reply.is_none());
        let shown_ns = member.clock.show(self.now_ns);
        if self.plant == Some(SimPlant::TermFromAnswer) {
            agent.count_from(shown_ns);
        }
        if self.plant == Some(SimPlant::EarlyHandOver) {
            agent.forget_readers();
        }
        agent.answered(reply, shown_ns);
        member.waits = false;
        self.turn(node);
    }

    /// The time that a message between a member and the coordinator takes; `None` if it is lost.
    pub(super) fn delay(&mut self, node: usize) -> Option<u64> {
        let is_cut = self.now_ns < self.members[node].cut_until_ns.max(self.away_until_ns);
        let is_calm = self.now_ns >= TROUBLES_NS;
        match self.random.u32(..100) {
            _ if is_cut => None,
            0..3 if !is_calm => None,
            3..8 if !is_calm => Some(self.random.u64(..4 * TERM_NS)),
            _ => Some(self.random.u64(MS / 10..20 * MS)),
        }
    }

    fn fault(&mut self) {
        if self.now_ns >= TROUBLES_NS {
            return;
        }
        let next_ns = self.now_ns + self.random.u64(..3 * TERM_NS);
        self.agenda.add(next_ns, SimEvent::Fault);
        let node = self.random.usize(..self.members.len());
        let until_ns = self.now_ns + self.random.u64(..5 * TERM_NS);
        let times = if self.plant == Some(SimPlant::WildClocks) { 100 } else { 1 };
        let member = &mut self.members[node];
        match self.random.u32(..13) {
            0 | 1 if member.agent.is_some() => {
                self.report.crashes += 1;
                member.crash();
                self.agenda.add(until_ns, SimEvent::Restart { node });
            }
            2 if member.agent.is_some() && member.pause.is_none() => {
                member.pause = Some(Vec::new());
                self.agenda.add(until_ns, SimEvent::Resume { node });
            }
            3 | 4 => member.cut_until_ns = until_ns,
            5 => self.away_until_ns = until_ns,
            6 => self.members.iter_mut().for_each(|m| m.clock.change_rate(self.now_ns, &mut self.random, times)),
            7 if member.pause.is_none() && !member.waits => {
                if let Some(agent) = &mut member.agent {
                    agent.leave();
                    // A server ends its clients' access to its memory before it leaves.
                    self.readers.end(node);
                    member.turn += 1;
                    self.turn(node);
                }
            }
            8 | 9 => self.wish(node),
            _ => self.order(node),
        }
    }

    fn restart(&mut self, node: usize) {
        // Members without a disk keep nothing; some of the others lose it.
        let lives = if self.keeps_data { &[None, Some(false), Some(true)][..] } else { &[None] };
        let may_lack = lives[self.random.usize(..lives.len())];
        let member = &mut self.members[node];
        if member.agent.is_none() {
            member.start(may_lack, self.replicas, self.form_with, &mut self.random);
            member.turn += 1;
            self.turn(node);
        }
    }

    /// A primary admits or demotes a random member of a random share.
    fn wish(&mut self, node: usize) {
        let Some(agent) = &mut self.members[node].agent else { return };
        let Some(config) = agent.right().config() else { return };
        let shares: Vec<_> = config.shares_of(agent.right().member()).collect();
        let Some(share) = self.random.choice(shares) else { return };
        let id = |name: &String| config.member(name).map(|member| member.id.clone());
        let admits: Vec<MemberId> = share.joining.iter().filter_map(id).collect();
        let demotes: Vec<MemberId> = share.backups.iter().filter_map(id).collect();
        let from = share.from;
        let wish = match (self.random.choice(admits), self.random.choice(demotes)) {
            (Some(member), _) => ConfigWish::Admit { from, member, epoch: config.epoch },
            (None, Some(member)) => ConfigWish::Demote { from, member },
            (None, None) => return,
        };
        agent.wish(wish);
    }
}
