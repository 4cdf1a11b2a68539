//! A member's machine: its process, its clock, its troubles.

use fastrand::Rng;

use crate::agent::MemberAgent;
use crate::config::{ClusterMember, MemberId};
use crate::coordinator::MemberBeat;
use crate::sim::clock::SimClock;
use crate::sim::events::SimEvent;

/// The term of simulated members: one second.
pub(crate) const TERM_NS: u64 = 1_000_000_000;

/// A machine with a member.
#[derive(Debug)]
pub(crate) struct SimMember {
    pub(crate) name: String,
    pub(crate) clock: SimClock,
    /// None while the process is down.
    pub(crate) agent: Option<MemberAgent>,
    pub(crate) incarnation: u64,
    /// The number of the last turn, over all lives.
    pub(crate) turn: u64,
    /// The number of the last call, and whether it still waits.
    pub(crate) call: u64,
    pub(crate) waits: bool,
    /// Its messages are lost until then.
    pub(crate) cut_until_ns: u64,
    /// Events that wait for the end of a pause.
    pub(crate) pause: Option<Vec<SimEvent>>,
    /// The greatest epoch that this life has seen.
    pub(crate) epoch: u64,
}

impl SimMember {
    pub(crate) fn new(number: usize, random: &mut Rng) -> SimMember {
        SimMember {
            name: format!("m{number}"),
            clock: SimClock::new(random),
            agent: None,
            incarnation: 0,
            turn: 0,
            call: 0,
            waits: false,
            cut_until_ns: 0,
            pause: None,
            epoch: 0,
        }
    }

    /// Starts the process, with another incarnation unless it keeps its data. `may_lack`: perhaps not the last changes.
    pub(crate) fn start(&mut self, may_lack: Option<bool>, replicas: u8, form_with: usize, random: &mut Rng) {
        if may_lack.is_none() {
            self.incarnation += 1;
        }
        let id = MemberId { name: self.name.clone(), incarnation: self.incarnation };
        let member = ClusterMember { id, address: format!("{}:7480", self.name) };
        let beat = MemberBeat { member, term_ns: TERM_NS, process: random.u64(..) };
        let mut agent = MemberAgent::new(beat, replicas, form_with);
        if let Some(may_lack) = may_lack {
            agent.set_kept_data(may_lack);
        }
        self.agent = Some(agent);
        self.epoch = 0;
    }

    pub(crate) fn crash(&mut self) {
        self.agent = None;
        self.pause = None;
        self.turn += 1;
        self.call += 1;
        self.waits = false;
    }
}
