//! Memory windows: each end opens parts of its exposed area to its peer, and closes them.

use faults::Rng;
use memory::MwType;
use transport::{Access, BindMw, Payload, QpType, RemoteAddr, SendOp};
use wire::RKey;

use super::draft::Draft;
use crate::area::AreaPiece;
use crate::check::sends::Effect;
use crate::end::{EndWindow, WindowPhase};
use crate::rng::pick;
use crate::world::World;

/// Longest part of a UC area that a window opens: it is used up from the front.
const UC_WINDOW_BYTES: usize = 64 << 10;

impl World {
    /// Binds a window of our own to a part of our exposed area.
    pub(super) fn draft_open(&mut self, e: usize, rng: &mut Rng) -> Option<Draft> {
        let window = self.draw_window(e, rng, |window| window.phase == WindowPhase::Idle)?;
        let piece = self.draw_part(e, rng)?;
        let all = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC | Access::FLUSH_GLOBAL;
        let access = pick(rng, &[all, Access::REMOTE_WRITE, Access::REMOTE_READ]);
        let zero_based = self.ends[e].windows[window].kind == MwType::Two && rng.chance(0.3);
        let access = if zero_based { access | Access::ZERO_BASED } else { access };
        Some(self.draft_bind(e, rng, window, piece, access))
    }

    /// Ends the key of a window that the peer has no use for at the moment.
    pub(super) fn draft_close(&mut self, e: usize, rng: &mut Rng) -> Option<Draft> {
        // On UC packets of a message may still be in flight although its sender has its completion.
        if self.is_calm() && self.service() == QpType::Uc {
            return None;
        }
        let window = self.draw_window(e, rng, |window| window.phase == WindowPhase::Live && window.uses == 0)?;
        if self.ends[e].windows[window].kind == MwType::One {
            let nothing = AreaPiece { offset: 0, len: 0 };
            return Some(self.draft_bind(e, rng, window, nothing, Access::empty()));
        }
        let own = &mut self.ends[e].windows[window];
        own.phase = WindowPhase::Changing;
        let op = SendOp::LocalInvalidate(own.rkey);
        Some(Draft { effect: Effect::Window { window, live: false }, ..Draft::new(op, Payload::empty(), 0) })
    }

    fn draft_bind(&mut self, e: usize, rng: &mut Rng, window: usize, piece: AreaPiece, access: Access) -> Draft {
        let end = &mut self.ends[e];
        let own = &mut end.windows[window];
        let present = own.rkey;
        let tag = (present.0 as u8).wrapping_add(rng.range(1..=255) as u8);
        own.rkey = RKey(present.0 & !0xff | u32::from(tag));
        own.phase = WindowPhase::Changing;
        (own.piece, own.access) = (piece, access);
        let op = SendOp::Bind(BindMw {
            window: present,
            new_rkey: own.rkey,
            region: end.exposed.keys().lkey,
            addr: end.exposed.addr(piece.offset),
            len_bytes: piece.len as u64,
            access,
        });
        let effect = Effect::Window { window, live: piece.len > 0 };
        Draft { effect, ..Draft::new(op, Payload::empty(), 0) }
    }

    fn draw_window(&self, e: usize, rng: &mut Rng, fits: impl Fn(&EndWindow) -> bool) -> Option<usize> {
        let windows = &self.ends[e].windows;
        let first = rng.below(windows.len() as u64) as usize;
        (0..windows.len()).map(|i| (first + i) % windows.len()).find(|i| fits(&windows[*i]))
    }

    fn draw_part(&self, e: usize, rng: &mut Rng) -> Option<AreaPiece> {
        let end = &self.ends[e];
        let area = end.exposed.len();
        if self.service() == QpType::Rc {
            // Atomics count from its beginning.
            let offset = rng.below(area as u64) as usize & !7;
            return Some(AreaPiece { offset, len: rng.range(1..=(area - offset) as u64) as usize });
        }
        let offset = self.ends[end.spec.peer?].writes.next();
        let len = area.checked_sub(offset).filter(|len| *len > 0)?;
        Some(AreaPiece { offset, len: len.min(UC_WINDOW_BYTES) })
    }

    /// Names a part of `owner`'s exposed area by one of its windows, which is in use then.
    pub(super) fn through_window(
        &mut self,
        owner: usize,
        piece: AreaPiece,
        access: Access,
    ) -> Option<(usize, RemoteAddr)> {
        let end = &mut self.ends[owner];
        let covers = |window: &EndWindow| {
            let (part, wanted) = (window.piece.range(), piece.range());
            window.phase == WindowPhase::Live
                && window.access.contains(access)
                && part.start <= wanted.start
                && wanted.end <= part.end
        };
        let number = end.windows.iter().position(covers)?;
        let window = &mut end.windows[number];
        window.uses += 1;
        let addr = match window.access.contains(Access::ZERO_BASED) {
            true => (piece.offset - window.piece.offset) as u64,
            false => end.exposed.addr(piece.offset),
        };
        Some((number, RemoteAddr { addr, rkey: window.rkey }))
    }

    /// A live window of the peer whose key a SEND of ours may end. Nobody uses it from now on.
    pub(super) fn take_peers_window(&mut self, e: usize, rng: &mut Rng) -> Option<(usize, RKey)> {
        let peer = self.ends[e].spec.peer?;
        let fits = |window: &EndWindow| window.phase == WindowPhase::Live && window.kind == MwType::Two;
        let number = self.draw_window(peer, rng, fits)?;
        let window = &mut self.ends[peer].windows[number];
        window.phase = WindowPhase::Changing;
        Some((number, window.rkey))
    }
}
