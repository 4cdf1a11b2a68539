//! The sessions of a polling thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use longarm::Qpn;
use rustc_hash::FxHashMap;

use crate::auth::AuthenticatedPeer;
use crate::server::inbox::SessionKey;
use crate::session::ServerSession;
use crate::verbs::VerbsLink;

type Session = ServerSession<VerbsLink>;
/// A client that has proved who it is.
pub(crate) type PeerRef<'a> = Option<&'a Arc<AuthenticatedPeer>>;

#[derive(Default)]
struct SessionPlace {
    generation: u32,
    session: Option<Session>,
    /// The client, if it has proved who it is.
    peer: Option<Arc<AuthenticatedPeer>>,
    is_ready: bool,
}

/// Sessions by number, and by the numbers of their queue pairs.
#[derive(Default)]
pub(crate) struct Sessions {
    places: Vec<SessionPlace>,
    free: Vec<u32>,
    by_qpn: FxHashMap<Qpn, u32>,
    /// Sessions whose memory is polled.
    polled: Vec<u32>,
    /// Sessions that have something to do.
    ready: VecDeque<u32>,
    count: usize,
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// True if there is a session whose memory is polled.
    pub(crate) fn poll_memory(&self) -> bool {
        !self.polled.is_empty()
    }

    pub(crate) fn polled(&self) -> &[u32] {
        &self.polled
    }

    /// A number for a session to be, which no other has.
    pub(crate) fn next_index(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(SessionPlace::default());
            self.places.len() as u32 - 1
        })
    }

    /// Gives back the number of a session that has not come to be.
    pub(crate) fn free_index(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Adds a session under its number.
    pub(crate) fn insert(&mut self, index: u32, mut session: Session, peer: Option<Arc<AuthenticatedPeer>>) {
        self.by_qpn.extend(session.link().qpns().map(|qpn| (qpn, index)));
        if !session.carrier().wakes() {
            self.polled.push(index);
        }
        self.places[index as usize].session = Some(session);
        self.places[index as usize].peer = peer;
        self.count += 1;
        self.make_ready(index);
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Session> {
        let place = self.places.get_mut(index as usize)?;
        let session = place.session.take()?;
        place.peer = None;
        place.generation = place.generation.wrapping_add(1);
        self.by_qpn.retain(|_, other| *other != index);
        self.polled.retain(|other| *other != index);
        self.free.push(index);
        self.count -= 1;
        Some(session)
    }

    /// The session with that number and its key.
    pub(crate) fn get(&mut self, index: u32) -> Option<(SessionKey, &mut Session)> {
        self.get_with_peer(index).map(|(key, session, _)| (key, session))
    }

    /// The session with that number, its key, and its client if that has proved who it is.
    pub(crate) fn get_with_peer(&mut self, index: u32) -> Option<(SessionKey, &mut Session, PeerRef<'_>)> {
        let place = self.places.get_mut(index as usize)?;
        let key = SessionKey { index, generation: place.generation };
        Some((key, place.session.as_mut()?, place.peer.as_ref()))
    }

    /// The session with that key, if it is still the same.
    pub(crate) fn find(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.get(key.index).filter(|(current, _)| *current == key).map(|(_, session)| session)
    }

    /// True if there is a session with this queue pair.
    pub(crate) fn has(&self, qpn: Qpn) -> bool {
        self.by_qpn.contains_key(&qpn)
    }

    /// Does something with the session of a queue pair, which has work afterwards.
    pub(crate) fn with(&mut self, qpn: Qpn, change: impl FnOnce(&mut Session)) {
        let Some(index) = self.by_qpn.get(&qpn).copied() else {
            return;
        };
        if let Some((_, session)) = self.get(index) {
            change(session);
            self.make_ready(index);
        }
    }

    /// Hands a datagram to the session that its first word names. Returns false for one to nobody.
    pub(crate) fn on_datagram(&mut self, datagram: &[u8], now: Instant) -> bool {
        let Some(index) = datagram.first_chunk().map(|word| u32::from_le_bytes(*word)) else {
            return false;
        };
        let Some((_, session)) = self.get(index).filter(|(_, session)| session.carrier().takes_datagrams()) else {
            return false;
        };
        session.on_datagram(datagram, now);
        self.make_ready(index);
        true
    }

    /// The session has something to do.
    pub(crate) fn make_ready(&mut self, index: u32) {
        if let Some(place) = self.places.get_mut(index as usize)
            && !std::mem::replace(&mut place.is_ready, true)
        {
            self.ready.push_back(index);
        }
    }

    /// The next session that has something to do.
    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        let index = self.ready.pop_front()?;
        self.places[index as usize].is_ready = false;
        Some(index)
    }

    /// The numbers of all sessions.
    pub(crate) fn indices(&self) -> Vec<u32> {
        let places = self.places.iter().enumerate();
        places.filter(|(_, place)| place.session.is_some()).map(|(index, _)| index as u32).collect()
    }
}
