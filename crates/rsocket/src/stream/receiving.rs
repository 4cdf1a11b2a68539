//! Receiving.

use std::io::IoSliceMut;

use super::StreamSocket;
use super::core::{StreamPhase, StreamState};
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

impl StreamSocket {
    /// Receives the bytes that are there, or all that were asked for with `MSG_WAITALL`. Zero bytes are the end.
    pub(crate) fn recv(&self, parts: &mut [IoSliceMut<'_>], flags: i32) -> Result<usize> {
        let patience = {
            let core = self.lock();
            core.options.patience(flags, core.options.recv_timeout)
        };
        self.ready(patience)?;
        let _turn = self.receiving.lock();
        let mut sink = ReceiveSink::new(parts);
        let room = sink.left;
        loop {
            match self.recv_some(&mut sink, flags, patience) {
                Err(error) if sink.left == room => return Err(error),
                Err(_) | Ok(0) => break,
                Ok(_) if sink.left == 0 || flags & libc::MSG_WAITALL == 0 || flags & libc::MSG_PEEK != 0 => break,
                Ok(_) => {}
            }
        }
        Ok(room - sink.left)
    }

    fn recv_some(&self, sink: &mut ReceiveSink<'_, '_>, flags: i32, patience: CallPatience) -> Result<usize> {
        let mut core = self.lock();
        if !core.has_data() {
            drop(core);
            core = self.until(patience, |core| core.has_data() || !core.readable)?;
        }
        if !core.has_data() {
            return core.end();
        }
        let (Some(flow), Some(endpoint)) = (&core.flow, core.endpoint.clone()) else { return Ok(0) };
        let places = flow.incoming.readable(sink.left);
        drop(core);
        places.iter().filter_map(|(at, len)| endpoint.received(*at, *len)).for_each(|span| sink.copy(span));
        let len = places[0].1 + places[1].1;
        if flags & libc::MSG_PEEK == 0 {
            let mut core = self.lock();
            if let Some(flow) = &mut core.flow {
                flow.incoming.consume(len);
            }
            core.grant();
        }
        Ok(len as usize)
    }
}

impl StreamState {
    /// The result of reading when no byte is there and none will come.
    fn end(&mut self) -> Result<usize> {
        match self.take_error() {
            Some(error) if self.phase == StreamPhase::Broken => Err(error),
            _ => Ok(0),
        }
    }
}
