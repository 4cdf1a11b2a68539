//! Peers on this host: shared memory instead of packets.
//!
//! ```text
//!  modify to RTR ── is the peer's slot one of this hub? ── links ─► hub, once per other process
//!  post_send ─► transport::near ─► End ─┬─ frames ─► lane ─► (the peer's poll)
//!                                       └─ WRITE, READ, atomics ─► the peer's memory
//!  poll ─► lanes of all links ─► Frame ─► transport::near ─► completions
//!  registry ─► Exporter ─► the export that peers read; waits for their accesses
//! ```
//!
//! A queue pair goes this way if its peer is in a process that has the same hub, both
//! processes want to, and their link is up when it is connected. Both ends come to the same answer:
//! it is the link that decides, once. Links live as long as both processes. The process may be our own: then
//! the link leads back to it, and nobody has to be asked (see [`own`]).

pub(crate) mod arrived;
pub(crate) mod end;
pub(crate) mod export;
mod far;
pub(crate) mod links;
pub(crate) mod meanwhile;
mod own;
mod reach;
mod record;
mod tally;

use std::sync::Arc;
use std::time::Duration;

use hub::client::Introduction;
use rustix::event::epoll;
use shm::{Death, Export, Link};
use transport::{QpAttr, QpState, QpType};

use end::End;
use export::Exporter;
use links::{Links, ShmLink};
use record::Recorder;

use crate::engine::Engine;
use crate::engine::scratch::Scratch;
use crate::objects::counters::Counter;
use crate::path::pump::Acks;
use crate::qp::entry::{Live, QpEntry};

/// How long a peer may take to take up a link that it is offered.
const PATIENCE: Duration = Duration::from_secs(2);

/// Turns that the last frames of a process that has ended may take: more than fit into its lanes.
const MAX_LAST_TURNS: u32 = 4096;

/// What the engine has for peers on this host.
pub(crate) struct ShmSide {
    pub(crate) export: Arc<Exporter>,
    pub(crate) links: Arc<Links>,
}

impl ShmSide {
    /// From the export that the hub gives to peers.
    pub(crate) fn new(export: Export) -> std::io::Result<ShmSide> {
        let links = Arc::new(Links::new()?);
        Ok(ShmSide { export: Arc::new(Exporter::new(export, links.clone())), links })
    }
}

impl Engine {
    /// The way to the peer that a queue pair is about to be connected to, if it is on this host.
    /// May wait for that peer, once per process. Called with no lock held.
    pub(crate) fn shm_end(&self, entry: &QpEntry, qp_type: QpType, attr: &QpAttr) -> Option<End> {
        let shm = self.shm.as_ref()?;
        let slot = attr.dest_qpn.slot();
        let is_connected = matches!(qp_type, QpType::Rc | QpType::Uc);
        if !is_connected || !self.devices.has_address(attr.address.destination) {
            return None;
        }
        let link = match self.is_own_slot(slot) {
            true => self.link_to_itself(shm)?,
            false => shm.links.to(slot, PATIENCE, || self.look_at_wishes())?,
        };
        let recorder = Recorder::new(self.capture.clone(), self.counters.clone());
        Some(End::new(link, entry.qpn(), attr.dest_qpn, self.counters.clone(), recorder))
    }

    /// The link for queue pairs whose peers are in this process.
    pub(crate) fn link_to_itself(&self, shm: &ShmSide) -> Option<Arc<ShmLink>> {
        shm.links.to_itself(|| Ok(Link::to_itself(shm.export.export(), self.wake_descriptor()?)?), &shm.export)
    }

    /// The hub has introduced another process.
    pub(crate) fn introduced(&self, introduction: Introduction) {
        if let Some(shm) = &self.shm {
            let slots: Vec<u8> = introduction.slots.iter().copied().chain([introduction.slot]).collect();
            if shm.links.must_decline(&slots, || self.sends_packets_to(&slots)) {
                log::info!("no link to slot {}: connections with it took packets", introduction.slot);
                return shm.links.refused(introduction.slot);
            }
            let up = shm.links.introduced(introduction, &shm.export);
            self.counters.add(Counter::ShmLinks, up.into());
        }
    }

    /// Whether a connected queue pair reaches one of these slots of this host by packets.
    fn sends_packets_to(&self, slots: &[u8]) -> bool {
        let mut found = false;
        self.slots.for_each_qp(|entry| {
            let cell = entry.lock();
            let peer = cell.live.as_ref().filter(|live| live.shm.is_none()).and_then(|live| live.qp.remote());
            found |= peer.is_some_and(|(address, qpn)| {
                slots.contains(&qpn.slot()) && self.devices.has_address(address.destination)
            });
        });
        found
    }

    /// Sees to the sockets of links: memory that came or went, and peers that are gone.
    pub(crate) fn serve_links(&self) {
        let Some(shm) = &self.shm else { return };
        let mut gone = Vec::new();
        if shm.links.serve(&shm.export, &mut gone) {
            self.each_end(End::forget_object);
        }
        for link in gone {
            log::info!("a process on this host is gone: {:?}", link.death());
            let broken = link.death().is_some_and(|death| death != Death::Gone);
            self.counters.add(if broken { Counter::ShmLinksBroken } else { Counter::ShmLinksGone }, 1);
            if !broken {
                self.take_last_frames(&link);
            }
            self.peer_died(&link);
        }
    }

    /// What a process said before it ended counts: its acknowledges may be the last that it said.
    fn take_last_frames(&self, link: &ShmLink) {
        Scratch::with(|scratch| {
            for _ in 0..MAX_LAST_TURNS {
                if link.waiting() == 0 {
                    break;
                }
                if self.drain_link(link, Acks::Now, scratch) == 0 {
                    // Another thread is at it.
                    std::thread::yield_now();
                }
            }
            self.pump_touched(scratch);
            self.settle(scratch);
        });
    }

    /// Whether something could not be told to a peer for now.
    pub(crate) fn links_are_unfinished(&self) -> bool {
        self.shm.as_ref().is_some_and(|shm| shm.links.is_unfinished())
    }

    /// What waits for a peer that is gone fails.
    fn peer_died(&self, link: &Arc<ShmLink>) {
        Scratch::with(|scratch| {
            self.slots.for_each_qp(|entry| {
                let concerned = |live: &Live| live.shm.as_ref().is_some_and(|end| end.is_on(link));
                if entry.lock().live.as_ref().is_some_and(concerned) {
                    self.with_live(entry, scratch, |qp, host| qp.peer_died(host));
                }
            });
            self.pump_touched(scratch);
            self.settle(scratch);
        });
    }

    /// Brings the counters up to date with what queue pairs counted for themselves.
    pub(crate) fn tell_tallies(&self) {
        if self.shm.is_none() || self.check().is_err() {
            return;
        }
        self.each_end(|end| end.tally().tell());
    }

    fn each_end(&self, act: impl Fn(&End)) {
        self.slots.for_each_qp(|entry| {
            if let Some(end) = entry.lock().live.as_ref().and_then(|live| live.shm.as_ref()) {
                act(end);
            }
        });
    }

    /// A queue pair is gone: the peer sees it no more, and does nothing on its behalf.
    pub(crate) fn hide_from_peer(&self, live: &mut Live) {
        if let (Some(shm), Some(end)) = (&self.shm, &mut live.shm) {
            end.show(&shm.export, None);
            end.link().wait_for_peer_accesses();
        }
    }

    /// Brings what peers see of a queue pair in line with its state. `cell` is locked.
    pub(crate) fn show_to_peer(&self, live: &mut Live) {
        let (Some(shm), Some(end)) = (&self.shm, &mut live.shm) else { return };
        let open = matches!(live.qp.state(), QpState::Rtr | QpState::Rts | QpState::Sqd);
        end.show(&shm.export, open.then(|| (live.qp.pd(), live.qp.access())));
    }
}

/// Waits on the sockets of all links as one descriptor.
pub(crate) fn watch(epoll: &std::os::fd::OwnedFd, link: &ShmLink, number: u64) -> std::io::Result<()> {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    let Some(socket) = link.socket() else { return Ok(()) };
    epoll::add(epoll, socket, epoll::EventData::new_u64(number), flags)?;
    // A child of the peer may hold the socket open when the peer is gone.
    if let Some(process) = link.peer().process() {
        epoll::add(epoll, process, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
    }
    Ok(())
}
