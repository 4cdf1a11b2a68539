//! The sessions of a group, and which of them have something to do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

use longarm::Qpn;
use rustc_hash::FxHashMap;

use crate::carrier::datagram_tokens;
use crate::client::group::SessionId;
use crate::client::session::CallerSession;

#[derive(Default)]
struct GroupPlace {
    generation: u32,
    member: Option<CallerSession>,
    /// The secret of datagrams to it.
    token: u32,
    is_ready: bool,
    has_calls: bool,
    /// The moment for which the place stands in the list of timers.
    timer: Option<Instant>,
}

/// See the module.
#[derive(Default)]
pub(super) struct GroupMembers {
    places: Vec<GroupPlace>,
    free: Vec<u32>,
    by_qpn: FxHashMap<Qpn, u32>,
    by_token: FxHashMap<u32, u32>,
    /// Sessions whose memory is polled.
    polled: Vec<u32>,
    /// Sessions that have something to do.
    ready: VecDeque<u32>,
    /// Moments at which sessions have something to do by themselves. One of a place that has moved its timer counts for
    /// nothing.
    timers: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Sessions with calls that have not ended.
    with_calls: usize,
    /// The next connection to look at.
    unchecked: usize,
}

impl GroupMembers {
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// A token that no session has, and that is not zero.
    pub(super) fn unused_token(&self, mut random: impl FnMut() -> u32) -> u32 {
        loop {
            let token = random();
            if token != 0 && !self.by_token.contains_key(&token) {
                return token;
            }
        }
    }

    pub(super) fn insert(&mut self, mut member: CallerSession, token: u32) -> SessionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(GroupPlace::default());
            self.places.len() as u32 - 1
        });
        self.by_qpn.extend(member.link().qpns().map(|qpn| (qpn, index)));
        self.by_token.insert(token, index);
        if !member.wakes() {
            self.polled.push(index);
        }
        let place = &mut self.places[index as usize];
        (place.member, place.token) = (Some(member), token);
        self.make_ready(index);
        SessionId { index, generation: self.places[index as usize].generation }
    }

    pub(super) fn remove(&mut self, id: SessionId) -> Option<CallerSession> {
        self.get(id)?;
        let place = &mut self.places[id.index as usize];
        let mut member = place.member.take()?;
        place.generation = place.generation.wrapping_add(1);
        place.timer = None;
        self.with_calls -= usize::from(std::mem::take(&mut place.has_calls));
        self.by_token.remove(&place.token);
        for qpn in member.link().qpns() {
            self.by_qpn.remove(&qpn);
        }
        self.polled.retain(|other| *other != id.index);
        self.free.push(id.index);
        Some(member)
    }

    pub(super) fn get(&self, id: SessionId) -> Option<&CallerSession> {
        let place = self.places.get(id.index as usize)?;
        place.member.as_ref().filter(|_| place.generation == id.generation)
    }

    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut CallerSession> {
        let place = self.places.get_mut(id.index as usize)?;
        place.member.as_mut().filter(|_| place.generation == id.generation)
    }

    /// The session in that place, if there is one.
    pub(super) fn at(&mut self, index: u32) -> Option<(SessionId, &mut CallerSession)> {
        let place = self.places.get_mut(index as usize)?;
        let id = SessionId { index, generation: place.generation };
        Some((id, place.member.as_mut()?))
    }

    /// True if a session has calls that have not ended.
    #[inline]
    pub(super) fn have_calls(&self) -> bool {
        self.with_calls > 0
    }

    /// True if there is a session whose memory is polled.
    #[inline]
    pub(super) fn poll_memory(&self) -> bool {
        !self.polled.is_empty()
    }

    /// The sessions whose memory is polled.
    #[inline]
    pub(super) fn polled(&self) -> &[u32] {
        &self.polled
    }

    /// The number of sessions that have something to do.
    #[inline]
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The next session that has something to do.
    #[inline]
    pub(super) fn next_ready(&mut self) -> Option<u32> {
        let index = self.ready.pop_front()?;
        self.places[index as usize].is_ready = false;
        Some(index)
    }

    /// The session has something to do.
    #[inline]
    pub(super) fn make_ready(&mut self, index: u32) {
        if let Some(place) = self.places.get_mut(index as usize)
            && !std::mem::replace(&mut place.is_ready, true)
        {
            self.ready.push_back(index);
        }
    }

    /// Notes what a session has to do next, after each use of it.
    #[inline]
    pub(super) fn note(&mut self, index: u32) {
        let Some(place) = self.places.get_mut(index as usize) else { return };
        let Some(member) = &place.member else { return };
        let has_calls = member.session().outstanding() > 0;
        if has_calls != place.has_calls {
            place.has_calls = has_calls;
            self.with_calls = if has_calls { self.with_calls + 1 } else { self.with_calls - 1 };
        }
        if let Some(next) = member.session().next_timer()
            && place.timer.is_none_or(|known| next < known)
        {
            place.timer = Some(next);
            self.timers.push(Reverse((next, index)));
        }
        if member.session().has_unsent() {
            self.make_ready(index);
        }
    }

    /// The sessions whose time has come have something to do.
    pub(super) fn pass_timers(&mut self, now: Instant) {
        while let Some(Reverse((at, index))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            if let Some(place) = self.places.get_mut(index as usize)
                && place.timer == Some(at)
            {
                place.timer = None;
                self.make_ready(index);
            }
        }
    }

    /// The session with that queue pair has something to do; returns it.
    pub(super) fn of_qpn(&mut self, qpn: Qpn) -> Option<&mut CallerSession> {
        let index = self.by_qpn.get(&qpn).copied()?;
        self.make_ready(index);
        self.at(index).map(|(_, member)| member)
    }

    /// The session to which a datagram goes has something to do; returns it.
    pub(super) fn of_datagram(&mut self, datagram: &[u8]) -> Option<&mut CallerSession> {
        let mut tokens = datagram_tokens(datagram).into_iter().flatten();
        let index = tokens.find_map(|token| self.by_token.get(&token).copied())?;
        self.make_ready(index);
        self.at(index).map(|(_, member)| member)
    }

    /// Looks at the connections of some sessions: at all of them in turn.
    pub(super) fn check_connections(&mut self, most: usize) {
        for _ in 0..most.min(self.places.len()) {
            self.unchecked = (self.unchecked + 1) % self.places.len();
            let index = self.unchecked as u32;
            if let Some((_, member)) = self.at(index)
                && member.session().is_up()
                && !member.check_connection()
            {
                self.make_ready(index);
            }
        }
    }

    /// No session can go on.
    pub(super) fn end_all(&mut self, why: &str) {
        for index in 0..self.places.len() as u32 {
            if let Some((_, member)) = self.at(index) {
                member.on_down(why);
                self.make_ready(index);
            }
        }
    }
}

impl std::fmt::Debug for GroupMembers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of_place =
            |place: &GroupPlace| place.member.as_ref().map(|member| (member.way(), member.session().outstanding()));
        f.debug_list().entries(self.places.iter().map(of_place)).finish()
    }
}
