//! The applications: they connect, answer, think, change their minds and leave.

use std::time::Duration;

use cm::{CmEvent, ConnId, ConnectReply, ConnectRequest, Ece, SidrReply, SidrRequest};
use wire::mad::{reason, sidr_status};
use wire::{Psn, QKey, Qpn};

use super::account::{ConnectionPhase, after};
use super::node::{HeldConnection, route};
use super::plan::Leaver;
use super::{Action, ConnectionsWorld};
use crate::check::{Outcome, ensure};
use crate::rng::up_to;

const SERVICE: u64 = 0x0106_1c06;
/// Nobody waits longer for the first answer: 16 requests, and some delays.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// Longest life of a connection.
const LIFE: Duration = Duration::from_secs(60);
/// Time codes of delays are below this one.
const SERVICE_TIMEOUT: u64 = 23;

impl ConnectionsWorld {
    /// A client asks.
    pub(super) fn begin(&mut self, tag: u32) -> Outcome {
        let attempt = self.plan.attempts[tag as usize];
        let now = self.now();
        let node = &mut self.nodes[attempt.from];
        if node.state != super::node::Power::On {
            self.stories.of(tag).crashed = true;
            return Ok(());
        }
        let way = route(attempt.from, attempt.to);
        let private_data = tag.to_be_bytes();
        let qpn = node.next_qpn();
        let id = if attempt.datagram {
            let request = SidrRequest { private_data: &private_data, ..SidrRequest::new(way, SERVICE) };
            node.manager.sidr_request(now, &request)
        } else {
            let request =
                ConnectRequest { private_data: &private_data, ..ConnectRequest::new(way, SERVICE, qpn, Psn::new(tag)) };
            node.manager.connect(now, &request)
        };
        let id = id.expect("ids are free");
        let held = HeldConnection {
            tag,
            client: true,
            datagram: attempt.datagram,
            leaver: attempt.leaver,
            phase: ConnectionPhase::Asked,
            since: now,
        };
        node.held.insert(id, held);
        self.see("asked");
        // Some do not wait for the answer.
        if self.chance(attempt.from, 12) {
            self.think(attempt.from, Action::Destroy(id), 10);
        }
        Ok(())
    }

    /// An event of a node's manager.
    pub(super) fn on_event(&mut self, node: usize, id: ConnId, event: &CmEvent) -> Outcome {
        match event {
            CmEvent::Request(request) => return self.on_request(node, id, &request.private_data, false),
            CmEvent::SidrRequest(request) => return self.on_request(node, id, &request.private_data, true),
            _ => {}
        }
        let now = self.now();
        let Some(held) = self.nodes[node].held.get_mut(&id) else {
            return Err(crate::check::Violation::new("events are of ids that exist", format!("{id:?}: {event:?}")));
        };
        let (before, tag, client) = (held.phase, held.tag, held.client);
        held.phase = after(before, event).map_err(|violation| violation.at(format!("attempt {tag}")))?;
        let waited = now - held.since;
        if before == ConnectionPhase::Asked && held.phase != ConnectionPhase::Asked {
            ensure!("answers come in bounded time", waited <= LONGEST_WAIT, "attempt {tag} waited {waited:?}");
        }
        let phase = held.phase;
        let clean = self.plan.is_clean();
        ensure!(
            "where nothing is lost everybody is reached",
            !clean || !matches!(event, CmEvent::Unreachable | CmEvent::SidrUnreachable),
            "attempt {tag}: {event:?}"
        );
        self.stories.heard(tag, client, event)?;
        self.proceed(node, id, phase);
        Ok(())
    }

    /// A peer asks: never twice at a time for one attempt.
    fn on_request(&mut self, node: usize, id: ConnId, private_data: &[u8], datagram: bool) -> Outcome {
        let tag = private_data.first_chunk().map_or(0, |tag| u32::from_be_bytes(*tag));
        let attempt = self.plan.attempts[tag as usize];
        ensure!("requests go where they were sent", attempt.to == node, "attempt {tag} at node {node}");
        let is_live = |held: &HeldConnection| {
            held.tag == tag && !held.client && !matches!(held.phase, ConnectionPhase::Over | ConnectionPhase::Done)
        };
        ensure!(
            "one request is one request",
            !self.nodes[node].held.values().any(is_live) || self.stories.of(tag).crashed,
            "attempt {tag} came again while the first was undecided or connected"
        );
        let leaver = attempt.leaver;
        let held = HeldConnection {
            tag,
            client: false,
            datagram,
            leaver,
            phase: ConnectionPhase::Requested,
            since: self.now(),
        };
        self.nodes[node].held.insert(id, held);
        if !datagram {
            self.delay(node, id);
        }
        self.think(node, Action::Decide(id), 1);
        Ok(())
    }

    /// Some servers are slow, and say so.
    fn delay(&mut self, node: usize, id: ConnId) {
        let now = self.now();
        let node = &mut self.nodes[node];
        let code = node.rng.below(SERVICE_TIMEOUT) as u8;
        match node.rng.below(6) {
            0 => node.manager.delay_repeats(now, id, code, &[]).expect("it is undecided"),
            1 => node.manager.delay(now, id, code, &[]).expect("it is undecided"),
            _ => {}
        }
    }

    /// The next action of the application.
    fn proceed(&mut self, node: usize, id: ConnId, phase: ConnectionPhase) {
        match phase {
            ConnectionPhase::Replied => self.think(node, Action::Confirm(id), 1),
            ConnectionPhase::Established => self.plan_leave(node, id),
            ConnectionPhase::Released => self.think(node, Action::Release(id), 1),
            ConnectionPhase::Over | ConnectionPhase::Done => self.think(node, Action::Destroy(id), 4),
            ConnectionPhase::Asked
            | ConnectionPhase::Requested
            | ConnectionPhase::Accepted
            | ConnectionPhase::Leaving => {}
        }
    }

    fn plan_leave(&mut self, node: usize, id: ConnId) {
        let held = self.nodes[node].held[&id];
        let leaves = match held.leaver {
            Leaver::Both => true,
            Leaver::Client => held.client,
            Leaver::Server => !held.client,
        };
        if leaves {
            let at = self.now() + up_to(&mut self.nodes[node].rng, LIFE);
            self.schedule(at, node, Action::Leave(id));
        }
    }

    /// Does what was planned, if the connection is still in the phase for it.
    pub(super) fn act(&mut self, node: usize, action: Action) {
        let id = match action {
            Action::Data(tag) => return self.on_data(node, tag),
            Action::Decide(id)
            | Action::Confirm(id)
            | Action::Leave(id)
            | Action::Release(id)
            | Action::Destroy(id) => id,
        };
        let Some(held) = self.nodes[node].held.get(&id).copied() else {
            return;
        };
        match (action, held.phase) {
            (Action::Decide(_), ConnectionPhase::Requested) => self.decide(node, id, held),
            (Action::Confirm(_), ConnectionPhase::Replied) => self.confirm(node, id, held),
            (
                Action::Leave(_),
                ConnectionPhase::Asked
                | ConnectionPhase::Requested
                | ConnectionPhase::Replied
                | ConnectionPhase::Accepted,
            ) => {
                self.destroy(node, id);
            }
            (Action::Leave(_), ConnectionPhase::Established) => self.leave(node, id, held),
            (Action::Release(_), ConnectionPhase::Released) => self.release(node, id),
            (Action::Destroy(_), _) => self.destroy(node, id),
            _ => {}
        }
    }

    fn decide(&mut self, node: usize, id: ConnId, held: HeldConnection) {
        let now = self.now();
        match self.nodes[node].rng.below(10) {
            0 => {
                if held.datagram {
                    return self.destroy(node, id);
                }
                self.nodes[node].manager.reject(now, id, reason::CONSUMER, &[], &[]).expect("it is undecided");
                self.stories.of(held.tag).server_refused = true;
                self.set_phase(node, id, ConnectionPhase::Done);
                self.think(node, Action::Destroy(id), 2);
            }
            1 => self.destroy(node, id),
            _ if held.datagram => {
                let reply = SidrReply {
                    status: sidr_status::VALID,
                    qpn: Qpn::new(5),
                    qkey: QKey(1),
                    ece: Ece::default(),
                    info: &[],
                    private_data: &[],
                };
                self.nodes[node].manager.sidr_reply(now, id, &reply).expect("it is unanswered");
                self.set_phase(node, id, ConnectionPhase::Done);
                self.think(node, Action::Destroy(id), 2);
            }
            _ => {
                let qpn = self.nodes[node].next_qpn();
                let reply = ConnectReply::new(qpn, Psn::new(held.tag));
                self.nodes[node].manager.accept(now, id, &reply).expect("it is undecided");
                self.stories.of(held.tag).accepted = true;
                self.set_phase(node, id, ConnectionPhase::Accepted);
                // Some change their minds.
                if self.chance(node, 20) {
                    self.think(node, Action::Destroy(id), 1);
                }
            }
        }
    }

    fn confirm(&mut self, node: usize, id: ConnId, held: HeldConnection) {
        let now = self.now();
        match self.nodes[node].rng.below(12) {
            0 => {
                self.nodes[node].manager.reject(now, id, reason::CONSUMER, &[], &[]).expect("it is undecided");
                self.stories.of(held.tag).client_left = true;
                self.set_phase(node, id, ConnectionPhase::Done);
                self.think(node, Action::Destroy(id), 2);
            }
            1 => self.destroy(node, id),
            _ => {
                self.nodes[node].manager.confirm(now, id, &[]).expect("it has a reply");
                self.stories.of(held.tag).client_established = true;
                self.set_phase(node, id, ConnectionPhase::Established);
                self.plan_leave(node, id);
                let to = self.plan.attempts[held.tag as usize].to;
                if self.chance(node, 3) {
                    self.schedule(now + self.plan.latency, to, Action::Data(held.tag));
                }
            }
        }
    }

    /// Data of the connection arrives, perhaps before the RTU.
    fn on_data(&mut self, node: usize, tag: u32) {
        let now = self.now();
        let is_it = |held: &HeldConnection| held.tag == tag && !held.client && held.phase == ConnectionPhase::Accepted;
        let Some(id) = self.nodes[node].held.iter().find(|(_, held)| is_it(held)).map(|(id, _)| *id) else {
            return;
        };
        self.nodes[node].manager.established(now, id).expect("it waits for the RTU");
        self.see("data before the RTU");
        self.stories.of(tag).server_established = true;
        self.set_phase(node, id, ConnectionPhase::Established);
        self.plan_leave(node, id);
    }

    fn leave(&mut self, node: usize, id: ConnId, held: HeldConnection) {
        if self.chance(node, 3) {
            return self.destroy(node, id);
        }
        let now = self.now();
        self.nodes[node].manager.disconnect(now, id, &[]).expect("it is established");
        self.left(held);
        self.set_phase(node, id, ConnectionPhase::Leaving);
    }

    fn release(&mut self, node: usize, id: ConnId) {
        if self.chance(node, 3) {
            return self.destroy(node, id);
        }
        let now = self.now();
        self.nodes[node].manager.disconnect(now, id, &[]).expect("it was asked to");
        self.set_phase(node, id, ConnectionPhase::Over);
        self.think(node, Action::Destroy(id), 4);
    }

    fn destroy(&mut self, node: usize, id: ConnId) {
        let now = self.now();
        self.nodes[node].manager.destroy(now, id);
        if let Some(held) = self.nodes[node].held.remove(&id) {
            self.left(held);
            let story = self.stories.of(held.tag);
            if !held.client {
                story.server_refused |= matches!(held.phase, ConnectionPhase::Requested | ConnectionPhase::Accepted);
            }
        }
    }

    /// An end does not want the connection any more.
    fn left(&mut self, held: HeldConnection) {
        let story = self.stories.of(held.tag);
        story.client_left |= held.client;
        story.server_left |= !held.client;
    }

    fn set_phase(&mut self, node: usize, id: ConnId, phase: ConnectionPhase) {
        if let Some(held) = self.nodes[node].held.get_mut(&id) {
            held.phase = phase;
        }
    }

    fn chance(&mut self, node: usize, one_in: u64) -> bool {
        self.nodes[node].rng.below(one_in) == 0
    }

    /// Does something after a while.
    fn think(&mut self, node: usize, action: Action, slowness: u32) {
        let at = self.now() + up_to(&mut self.nodes[node].rng, self.plan.thinking * slowness);
        self.schedule(at, node, action);
    }
}
