//! Peers on this host: their introductions, their links, and their deaths.

use std::sync::Arc;
use std::time::Duration;

use hub::client::{Introduction, IntroductionRefusal};
use shm::Death;
use transport::{QpAttr, QpType};

use crate::engine::Engine;
use crate::engine::pump::{AckTiming, EngineSink};
use crate::objects::counters::EngineCounter;
use crate::path::shm_receive::FrameReceive;
use crate::qp::entry::QpEntry;
use crate::qp::slots::LastQp;
use crate::shm::endpoint::ShmEndpoint;
use crate::shm::link::ShmLink;
use crate::shm::record::FrameRecorder;

/// The time for which a peer may take to accept a link.
const LINK_PATIENCE: Duration = Duration::from_secs(2);

/// The most turns that the last frames of an ended process take: more than fit into its lanes.
const MAX_LAST_TURNS: u32 = 4096;

impl Engine {
    /// The end of a path to the peer that a queue pair is about to be connected to, if the peer is on this host.
    ///
    /// It may wait for that peer, once for each process. The caller holds no lock.
    pub(crate) fn shm_endpoint(&self, entry: &QpEntry, qp_type: QpType, attr: &QpAttr) -> Option<ShmEndpoint> {
        let shm = self.shm.as_ref()?;
        let slot = attr.dest_qpn.slot();
        let is_connected = matches!(qp_type, QpType::Rc | QpType::Uc);
        if !is_connected || !self.services.devices.has_address(attr.address.destination) {
            return None;
        }
        let link = match self.services.slots.is_own(slot) {
            true => shm.link_to_itself(|| self.watch.copy_bell())?,
            false => shm.links.to(slot, LINK_PATIENCE, || self.schedule.background.ask_hub())?,
        };
        let counters = self.services.counters.clone();
        let recorder = FrameRecorder::new(self.services.capture.clone(), counters.clone());
        Some(ShmEndpoint::new(link, entry.qpn(), attr.dest_qpn, counters, recorder))
    }

    /// Takes a link to another process into use that the hub has introduced.
    pub(crate) fn introduced(&self, introduction: Introduction) {
        let Some(shm) = &self.shm else { return };
        let slots: Vec<u8> = introduction.slots.iter().copied().chain([introduction.slot]).collect();
        if shm.links.must_decline(&slots, || self.sends_packets_to(&slots)) {
            log::info!("no link to slot {}: connections with it took packets", introduction.slot);
            return shm.links.refused(introduction.slot);
        }
        let up = shm.links.introduced(introduction, &shm.export);
        self.services.counters.add(EngineCounter::ShmLinks, up.into());
    }

    /// Notes that the hub does not introduce the process with a slot.
    pub(crate) fn not_introduced(&self, slot: u8, reason: &IntroductionRefusal) {
        log::debug!("no introduction to slot {slot}: {reason:?}");
        match (&self.shm, reason) {
            (Some(shm), IntroductionRefusal::Already { slots }) => shm.links.already(slot, slots),
            (Some(shm), _) => shm.links.refused(slot),
            (None, _) => {}
        }
    }

    /// Whether a connected queue pair reaches one of these slots of this host by packets.
    fn sends_packets_to(&self, slots: &[u8]) -> bool {
        let mut found = false;
        self.services.slots.for_each_qp(|entry| {
            let cell = entry.lock();
            let peer = cell.live.as_ref().filter(|live| live.shm.is_none()).and_then(|live| live.qp.remote());
            found |= peer.is_some_and(|(address, qpn)| {
                slots.contains(&qpn.slot()) && self.services.devices.has_address(address.destination)
            });
        });
        found
    }

    /// Serves the sockets of links: memory that came or went, and peers that are gone.
    pub(crate) fn serve_links(&self) {
        let Some(shm) = &self.shm else { return };
        let mut gone = Vec::new();
        if shm.links.serve(&shm.export, &mut gone) {
            self.each_endpoint(ShmEndpoint::forget_object);
        }
        for link in gone {
            log::info!("a process on this host is gone: {:?}", link.death());
            let broken = link.death().is_some_and(|death| death != Death::Gone);
            let counter = if broken { EngineCounter::ShmLinksBroken } else { EngineCounter::ShmLinksGone };
            self.services.counters.add(counter, 1);
            if !broken {
                self.take_last_frames(&link);
            }
            self.fail_peers(&link);
        }
    }

    /// Takes the frames that a process sent before it ended: they may hold its last ACKs.
    fn take_last_frames(&self, link: &Arc<ShmLink>) {
        let Some(path) = &self.shm else { return };
        self.with_scratch(|scratch| {
            let sink = &mut EngineSink { engine: self, scratch: &mut scratch.path, acks: AckTiming::Now };
            let mut receive = FrameReceive { path, services: &self.services, schedule: &self.schedule, sink };
            for _ in 0..MAX_LAST_TURNS {
                if link.waiting() == 0 {
                    break;
                }
                if receive.drain_link(link, &mut LastQp::default()) == 0 {
                    // Another thread drains it.
                    std::thread::yield_now();
                }
            }
        });
    }

    /// Fails the requests that wait for a peer that is gone.
    fn fail_peers(&self, link: &Arc<ShmLink>) {
        self.with_scratch(|scratch| {
            self.services.slots.for_each_qp(|entry| {
                let is_peer = |endpoint: &ShmEndpoint| endpoint.is_on(link);
                if entry.lock().live.as_ref().and_then(|live| live.shm.as_ref()).is_some_and(is_peer) {
                    // Destroyed meanwhile is as good.
                    let _ = self.with_live(entry, scratch, |qp, host| qp.peer_died(host));
                }
            });
        });
    }

    /// Whether a link could not tell its peer something for now.
    pub(crate) fn links_are_unfinished(&self) -> bool {
        self.shm.as_ref().is_some_and(|shm| shm.links.is_unfinished())
    }

    /// Brings the counters up to date with those that queue pairs keep for themselves.
    pub(crate) fn publish_tallies(&self) {
        if self.shm.is_some() && self.check().is_ok() {
            self.each_endpoint(|endpoint| endpoint.tally().publish());
        }
    }

    fn each_endpoint(&self, act: impl Fn(&ShmEndpoint)) {
        self.services.slots.for_each_qp(|entry| {
            if let Some(endpoint) = entry.lock().live.as_ref().and_then(|live| live.shm.as_ref()) {
                act(endpoint);
            }
        });
    }
}
