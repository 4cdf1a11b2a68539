//! Sending.

use std::io::IoSlice;
use std::sync::Arc;

use parking_lot::Mutex;

use super::at_once::{AtOnce, send_at_once};
use super::core::StreamState;
use super::endpoint::StreamEndpoint;
use super::mapping::MappedBuffers;
use super::shared::SharedStream;
use super::source::SendSource;
use super::work::StreamWork;
use crate::errno::{Errno, Result};
use crate::protocol::buffer::PeerBuffer;
use crate::protocol::message::StreamMessage;
use crate::protocol::ring::RingPlace;
use crate::wait::CallPatience;

/// A long transfer begins with a short piece, so that the peer has something to do, and goes on with ever longer ones.
/// It begins with a long one while earlier pieces are under way.
const FIRST_PIECE: u32 = 2048;
/// The longest piece. Each piece ends a group of packets: these are four whole groups of 15 packets. It is also no more
/// than a quarter of the send buffer, so that pieces overlap.
const LONGEST_PIECE: u32 = 4 * 15 * 4096;
/// From that length on, the bytes and the notice of them are two requests. The first packet of a WRITE with immediate
/// data is longer than the next ones, and the last one is longer again: three groups for the system. The packets of
/// a plain WRITE are of one length, and the notice is a shorter packet, which may end their group.
const LEAST_APART: u32 = 3 * 4096;

/// The sending half: callers take turns, and tell the peer of new mappings first.
#[derive(Debug, Default)]
pub(super) struct StreamSender {
    turn: Mutex<()>,
    pub(super) mapped: MappedBuffers,
}

impl StreamSender {
    /// Sends; fewer bytes than asked if patience ends, or the connection.
    pub(super) fn send(&self, stream: &SharedStream, parts: &[IoSlice<'_>], flags: i32) -> Result<usize> {
        self.send_each(stream, parts, flags, |source, patience| send_pieces(stream, source, patience))
    }

    /// Sends the bytes that there is room for. Never waits.
    pub(super) fn send_now(&self, stream: &SharedStream, parts: &[IoSlice<'_>]) -> Result<usize> {
        self.send_each(stream, parts, libc::MSG_DONTWAIT, |source, _| send_pieces_now(stream, source))
    }

    /// Writes into the memory that the peer has mapped at `offset`. Writes fewer bytes if its mappings,
    /// the patience or the connection end.
    pub(super) fn write_mapped(&self, stream: &SharedStream, bytes: &[u8], offset: u64, flags: i32) -> Result<usize> {
        let parts = [IoSlice::new(bytes)];
        self.send_each(stream, &parts, flags, |source, patience| write_pieces(stream, source, offset, patience))
    }

    /// Lets `send` send the bytes while it is this caller's turn. The number of bytes that it took, unless it failed
    /// with the first.
    fn send_each(
        &self,
        stream: &SharedStream,
        parts: &[IoSlice<'_>],
        flags: i32,
        send: impl FnOnce(&mut SendSource<'_, '_>, CallPatience) -> Result<()>,
    ) -> Result<usize> {
        let patience = {
            let state = stream.lock();
            state.options.patience(flags, state.options.send_timeout)
        };
        stream.ready(patience)?;
        let _turn = self.turn.lock();
        let mut source = SendSource::new(parts);
        let all = source.left;
        let sent = self.mapped.announce(stream, patience).and_then(|()| send(&mut source, patience));
        match sent {
            Err(error) if source.left == all => Err(error),
            _ => Ok(all - source.left),
        }
    }
}

fn send_pieces(stream: &SharedStream, source: &mut SendSource<'_, '_>, patience: CallPatience) -> Result<()> {
    let mut longest = FIRST_PIECE;
    while source.left > 0 {
        if send_at_once(stream, source)? != AtOnce::Sent {
            let limit = |state: &StreamState| if state.is_all_sent() { longest } else { longest_piece(state) };
            send_data(stream, source, limit, patience)?;
            longest = LONGEST_PIECE.min(2 * longest);
        }
    }
    Ok(())
}

/// The same for tasks, which rather wait for earlier pieces than copy twice.
fn send_pieces_now(stream: &SharedStream, source: &mut SendSource<'_, '_>) -> Result<()> {
    while source.left > 0 {
        match send_at_once(stream, source)? {
            AtOnce::Sent => {}
            AtOnce::Later => {
                stream.lock().behind_others = true;
                return Err(Errno::AGAIN);
            }
            AtOnce::No => send_data(stream, source, longest_piece, CallPatience::NONE)?,
        }
    }
    Ok(())
}

fn longest_piece(state: &StreamState) -> u32 {
    LONGEST_PIECE.min(state.settings.send_buffer / 4)
}

/// Sends the next piece by way of the send buffer.
fn send_data(
    stream: &SharedStream,
    source: &mut SendSource<'_, '_>,
    longest: impl FnOnce(&StreamState) -> u32,
    patience: CallPatience,
) -> Result<()> {
    let mut state = stream.writable(patience, StreamState::can_send_data)?;
    let longest = longest(&state);
    let room = SendRoom::for_data(&mut state, source.left, longest).ok_or(Errno::INVAL)?;
    drop(state);
    let message = Some(StreamMessage::Data(room.to.len));
    send_piece(stream, source, &room, message)
}

/// Copies a piece and sends it off. A failure here breaks the connection: its place is taken.
fn send_piece(
    stream: &SharedStream,
    source: &mut SendSource<'_, '_>,
    room: &SendRoom,
    message: Option<StreamMessage>,
) -> Result<()> {
    let SendRoom { endpoint, place, to, apart } = room;
    let (work, payload) = match place {
        None => (StreamWork::Data(0), source.take(to.len as usize)),
        Some(place) => {
            place.iter().filter_map(|(at, len)| endpoint.to_send(*at, *len)).for_each(|span| source.copy(span));
            (StreamWork::Data(to.len), endpoint.gathered(place))
        }
    };
    let posted = match message {
        Some(message) if *apart => endpoint.write_and_tell(work, *to, message, payload),
        message => endpoint.write(work, *to, message, payload),
    };
    if posted.is_err() {
        stream.lock().check(posted);
        stream.bells.ring();
    }
    posted
}

fn write_pieces(
    stream: &SharedStream,
    source: &mut SendSource<'_, '_>,
    mut offset: u64,
    patience: CallPatience,
) -> Result<()> {
    let mut longest = FIRST_PIECE;
    while source.left > 0 {
        let mut state = stream.writable(patience, StreamState::can_send_message)?;
        let Some(to) = state.endpoint.as_ref().and_then(|endpoint| endpoint.mapped(offset)) else { break };
        let room = SendRoom::for_mapped(&mut state, source.left, longest, to).ok_or(Errno::INVAL)?;
        drop(state);
        longest = LONGEST_PIECE.min(2 * longest);
        offset = offset.wrapping_add(room.to.len.into());
        send_piece(stream, source, &room, None)?;
    }
    Ok(())
}

/// Room for a piece: where it waits, if it does, and where it goes.
struct SendRoom {
    endpoint: Arc<StreamEndpoint>,
    place: Option<RingPlace>,
    to: PeerBuffer,
    /// The notice is a request of its own, which has a slot.
    apart: bool,
}

impl SendRoom {
    /// Reserves room for a piece of the next `left` bytes, where there is some.
    fn for_data(state: &mut StreamState, left: usize, longest: u32) -> Option<SendRoom> {
        let room = state.flow.as_ref()?.outgoing.room();
        let (len, place) = place(state, left, longest, room)?;
        let flow = state.flow.as_mut()?;
        let to = flow.outgoing.send_data(len);
        let apart = len >= LEAST_APART && flow.outgoing.take_another_slot();
        Some(SendRoom { endpoint: state.endpoint.clone()?, place, to, apart })
    }

    /// The same in a buffer that the peer has mapped, without notice to the peer.
    fn for_mapped(state: &mut StreamState, left: usize, longest: u32, to: PeerBuffer) -> Option<SendRoom> {
        let (len, place) = place(state, left, longest, to.len)?;
        state.flow.as_mut()?.outgoing.take_slot();
        Some(SendRoom { endpoint: state.endpoint.clone()?, place, to: PeerBuffer { len, ..to }, apart: false })
    }
}

/// The bytes of one piece, and their place in the send buffer unless they go inline.
fn place(state: &mut StreamState, left: usize, longest: u32, room: u32) -> Option<(u32, Option<RingPlace>)> {
    let inline = u32::from(state.settings.inline);
    let flow = state.flow.as_mut()?;
    let len = u32::try_from(left).unwrap_or(u32::MAX).min(longest).min(room);
    if len <= inline {
        return Some((len, None));
    }
    let len = len.min(flow.ring.free());
    Some((len, Some(flow.ring.take(len))))
}
