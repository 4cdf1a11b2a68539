//! Receiving.

use std::io::IoSliceMut;

use parking_lot::Mutex;

use super::shared::SharedStream;
use crate::errno::Result;
use crate::wait::CallPatience;

/// Room of the caller's, in several places, of which some is filled.
struct ReceiveSink<'a, 'b> {
    parts: &'a mut [IoSliceMut<'b>],
    /// The part that is being filled, and how far it is.
    part: usize,
    at: usize,
    left: usize,
}

impl<'a, 'b> ReceiveSink<'a, 'b> {
    fn new(parts: &'a mut [IoSliceMut<'b>]) -> ReceiveSink<'a, 'b> {
        let left = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        ReceiveSink { parts, part: 0, at: 0, left }
    }

    /// Copies a span in, as far as there is room.
    fn copy(&mut self, mut from: device::Span<'_>) {
        while from.len_bytes() > 0
            && let Some(part) = self.parts.get_mut(self.part)
        {
            let room = &mut part[self.at..];
            let len = room.len().min(from.len_bytes());
            let (Some(head), Some(tail)) = (from.part(0, len), from.part(len, from.len_bytes() - len)) else { return };
            head.read(&mut room[..len]);
            let full = len == room.len();
            from = tail;
            self.at += len;
            self.left -= len;
            if full {
                (self.part, self.at) = (self.part + 1, 0);
            }
        }
    }
}

/// The receiving half: callers take turns.
#[derive(Debug, Default)]
pub(super) struct StreamReceiver {
    turn: Mutex<()>,
}

impl StreamReceiver {
    /// Receives the bytes that are there. Never waits.
    pub(super) fn recv_now(&self, stream: &SharedStream, parts: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let _turn = self.turn.lock();
        recv_some(stream, &mut ReceiveSink::new(parts), 0, CallPatience::NONE)
    }

    /// Receives the bytes that are there, or all that were asked for with `MSG_WAITALL`. Zero bytes are the end.
    pub(super) fn recv(&self, stream: &SharedStream, parts: &mut [IoSliceMut<'_>], flags: i32) -> Result<usize> {
        let patience = {
            let state = stream.lock();
            state.options.patience(flags, state.options.recv_timeout)
        };
        stream.ready(patience)?;
        let _turn = self.turn.lock();
        let mut sink = ReceiveSink::new(parts);
        let room = sink.left;
        loop {
            match recv_some(stream, &mut sink, flags, patience) {
                Err(error) if sink.left == room => return Err(error),
                Err(_) | Ok(0) => break,
                Ok(_) if sink.left == 0 || flags & libc::MSG_WAITALL == 0 || flags & libc::MSG_PEEK != 0 => break,
                Ok(_) => {}
            }
        }
        Ok(room - sink.left)
    }
}

fn recv_some(
    stream: &SharedStream,
    sink: &mut ReceiveSink<'_, '_>,
    flags: i32,
    patience: CallPatience,
) -> Result<usize> {
    let mut state = stream.lock();
    if !state.has_data() {
        drop(state);
        state = stream.until(patience, |state| state.has_data() || !state.readable)?;
    }
    if !state.has_data() {
        return state.end();
    }
    let (Some(flow), Some(endpoint)) = (&state.flow, state.endpoint.clone()) else { return Ok(0) };
    let places = flow.incoming.readable(sink.left);
    drop(state);
    places.iter().filter_map(|(at, len)| endpoint.received(*at, *len)).for_each(|span| sink.copy(span));
    let len = places[0].1 + places[1].1;
    if flags & libc::MSG_PEEK == 0 {
        let mut state = stream.lock();
        if let Some(flow) = &mut state.flow {
            flow.incoming.consume(len);
        }
        state.grant();
    }
    Ok(len as usize)
}
