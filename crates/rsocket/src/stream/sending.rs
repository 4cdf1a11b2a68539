//! Sending.

use std::io::IoSlice;
use std::sync::Arc;

use device::{Payload, Span};

use super::StreamSocket;
use super::core::{StreamPhase, StreamState};
use super::endpoint::{Endpoint, inline};
use super::work::Work;
use crate::errno::{Errno, Result};
use crate::protocol::buffer::PeerBuffer;
use crate::protocol::message::StreamMessage;
use crate::protocol::ring::RingPlace;
use crate::wait::CallPatience;

/// A long transfer begins with a short piece, so that the peer has something to do, and goes on with
/// ever longer ones.
const FIRST_PIECE: u32 = 2048;
const LONGEST_PIECE: u32 = 65536;

/// Bytes of the caller's, in several places, of which some were taken.
pub(super) struct SendSource<'a, 'b> {
    parts: &'a [IoSlice<'b>],
    /// Taken from the first part.
    taken: usize,
    pub(super) left: usize,
}

impl<'a, 'b> SendSource<'a, 'b> {
    pub(super) fn new(parts: &'a [IoSlice<'b>]) -> SendSource<'a, 'b> {
        let left = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        SendSource { parts, taken: 0, left }
    }

    /// Copies the next bytes out, a span full.
    fn copy(&mut self, mut to: Span<'_>) {
        while let Some((first, rest)) = self.parts.split_first()
            && to.len_bytes() > 0
        {
            let bytes = &first[self.taken..];
            let len = bytes.len().min(to.len_bytes());
            if let (Some(head), Some(tail)) = (to.part(0, len), to.part(len, to.len_bytes() - len)) {
                head.write(&bytes[..len]);
                to = tail;
            }
            self.took(len);
            if len == bytes.len() {
                (self.parts, self.taken) = (rest, 0);
            }
        }
    }

    /// The next bytes as they go with a request.
    fn take(&mut self, len: usize) -> Payload {
        if let Some(bytes) = self.parts.first().and_then(|first| first.get(self.taken..self.taken + len)) {
            let payload = inline(bytes);
            self.took(len);
            return payload;
        }
        let mut bytes = Vec::with_capacity(len);
        while let Some((first, rest)) = self.parts.split_first()
            && bytes.len() < len
        {
            let piece = &first[self.taken..];
            let piece = &piece[..piece.len().min(len - bytes.len())];
            bytes.extend_from_slice(piece);
            self.took(piece.len());
            if self.taken == first.len() {
                (self.parts, self.taken) = (rest, 0);
            }
        }
        inline(&bytes)
    }

    fn took(&mut self, len: usize) {
        self.taken += len;
        self.left -= len;
    }
}

/// Room for a piece: where it waits, if it does, and where it goes.
pub(super) struct SendRoom {
    endpoint: Arc<Endpoint>,
    place: Option<RingPlace>,
    to: PeerBuffer,
}

impl SendRoom {
    /// Bytes of it.
    pub(super) fn len(&self) -> u32 {
        self.to.len
    }
}

impl StreamSocket {
    /// Sends; fewer bytes than asked if patience ends, or the connection.
    pub(crate) fn send(&self, parts: &[IoSlice<'_>], flags: i32) -> Result<usize> {
        let patience = self.patience_to_send(flags);
        self.ready(patience)?;
        let _turn = self.sending.lock();
        let mut source = SendSource::new(parts);
        let all = source.left;
        let sent = self.announce(patience).and_then(|()| self.send_pieces(&mut source, patience));
        match sent {
            Err(error) if source.left == all => Err(error),
            _ => Ok(all - source.left),
        }
    }

    pub(super) fn patience_to_send(&self, flags: i32) -> CallPatience {
        let core = self.lock();
        core.options.patience(flags, core.options.send_timeout)
    }

    fn send_pieces(&self, source: &mut SendSource<'_, '_>, patience: CallPatience) -> Result<()> {
        let mut longest = FIRST_PIECE;
        while source.left > 0 {
            let mut core = self.writable(patience, StreamState::can_send_data)?;
            let room = core.reserve(source.left, longest).ok_or(Errno::INVAL)?;
            drop(core);
            longest = LONGEST_PIECE.min(2 * longest);
            let message = Some(StreamMessage::Data(room.to.len));
            self.send_piece(source, &room, message)?;
        }
        Ok(())
    }

    /// Copies a piece and sends it off. A failure here breaks the connection: its place is taken.
    pub(super) fn send_piece(
        &self,
        source: &mut SendSource<'_, '_>,
        room: &SendRoom,
        message: Option<StreamMessage>,
    ) -> Result<()> {
        let SendRoom { endpoint, place, to } = room;
        let (work, payload) = match place {
            None => (Work::Data(0), source.take(to.len as usize)),
            Some(place) => {
                place.iter().filter_map(|(at, len)| endpoint.to_send(*at, *len)).for_each(|span| source.copy(span));
                (Work::Data(to.len), endpoint.gathered(place))
            }
        };
        let posted = endpoint.write(work, *to, message, payload);
        if posted.is_err() {
            self.lock().check(posted);
            self.bells.ring();
        }
        posted
    }

    /// The state, as soon as the test holds. An error if nothing more can be sent.
    pub(super) fn writable(
        &self,
        patience: CallPatience,
        test: impl Fn(&mut StreamState) -> bool,
    ) -> Result<parking_lot::MutexGuard<'_, StreamState>> {
        let mut core = self.lock();
        if !(core.writable && test(&mut core)) {
            drop(core);
            core = self.until(patience, |core| !core.writable || test(core))?;
        }
        if core.writable { Ok(core) } else { Err(core.why_not_writable()) }
    }
}

impl StreamState {
    /// Reserves room for a piece of the next `left` bytes, where there is some.
    fn reserve(&mut self, left: usize, longest: u32) -> Option<SendRoom> {
        let room = self.flow.as_ref()?.outgoing.room();
        let (len, place) = self.place(left, longest, room)?;
        let flow = self.flow.as_mut()?;
        let to = flow.outgoing.send_data(len);
        Some(SendRoom { endpoint: self.endpoint.clone()?, place, to })
    }

    /// The same in a buffer that the peer has mapped, without notice to the peer.
    pub(super) fn reserve_mapped(&mut self, left: usize, longest: u32, to: PeerBuffer) -> Option<SendRoom> {
        let (len, place) = self.place(left, longest, to.len)?;
        self.flow.as_mut()?.outgoing.take_slot();
        Some(SendRoom { endpoint: self.endpoint.clone()?, place, to: PeerBuffer { len, ..to } })
    }

    /// The bytes of one piece, and their place in the send buffer unless they go inline.
    fn place(&mut self, left: usize, longest: u32, room: u32) -> Option<(u32, Option<RingPlace>)> {
        let inline = u32::from(self.settings.inline);
        let flow = self.flow.as_mut()?;
        let len = u32::try_from(left).unwrap_or(u32::MAX).min(longest).min(room);
        if len <= inline {
            return Some((len, None));
        }
        let len = len.min(flow.ring.free());
        Some((len, Some(flow.ring.take(len))))
    }

    fn why_not_writable(&mut self) -> Errno {
        match self.phase {
            StreamPhase::Broken => self.take_error().unwrap_or(Errno(libc::EPIPE)),
            StreamPhase::Disconnected => Errno(libc::ECONNRESET),
            _ => Errno(libc::EPIPE),
        }
    }
}
