//! One TCP connection of the exchange: whole messages, before a deadline.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::Deadline;
use super::frame::{Frame, HEADER_BYTES, Header};
use crate::error::ConnectError;
use crate::qp::{Connected, Unconnected};

/// A connection to one peer.
#[derive(Debug)]
pub(crate) struct Session {
    stream: TcpStream,
    peer: String,
    deadline: Deadline,
}

impl Session {
    pub(crate) fn new(stream: TcpStream, deadline: Deadline) -> Result<Session, ConnectError> {
        let peer = stream.peer_addr().map_or("the peer".to_owned(), |address| address.to_string());
        let session = Session { stream, peer, deadline };
        session.stream.set_nodelay(true).map_err(|error| session.failed(error))?;
        Ok(session)
    }

    /// Uses the address for RDMA that TCP uses, if it is one of the device's.
    pub(crate) fn prefer_own_address<S: Connected>(&self, qp: &mut Unconnected<S>) {
        if let Ok(address) = self.stream.local_addr() {
            qp.use_address(address.ip().to_canonical());
        }
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), ConnectError> {
        let left = self.deadline.left(&self.peer)?;
        let sent = self.stream.set_write_timeout(Some(left));
        let sent = sent.and_then(|()| self.stream.write_all(&frame.encode()));
        sent.map_err(|error| self.failed(error))
    }

    pub(crate) fn receive(&mut self) -> Result<Frame, ConnectError> {
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header)?;
        let header = Header::decode(&header).map_err(|problem| self.protocol(problem))?;
        let mut body = vec![0; header.body_bytes];
        self.fill(&mut body)?;
        Frame::decode(header, &body)
    }

    /// Reads exactly as much, however slowly it comes, before the deadline.
    fn fill(&mut self, mut bytes: &mut [u8]) -> Result<(), ConnectError> {
        while !bytes.is_empty() {
            let left = self.deadline.left(&self.peer)?;
            let read = self.stream.set_read_timeout(Some(left));
            match read.and_then(|()| self.stream.read(bytes)) {
                Ok(0) => return Err(self.failed(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => bytes = &mut bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// Tells the peer why it comes to nothing, and gives the error back.
    pub(crate) fn refuse(&mut self, error: ConnectError) -> ConnectError {
        // It may have gone already.
        let _ = self.send(&Frame::refusal(&error.to_string()));
        error
    }

    /// The peer sent a message that has no place here.
    pub(crate) fn unexpected(&self) -> ConnectError {
        self.protocol("it sent a message out of turn")
    }

    fn protocol(&self, problem: &'static str) -> ConnectError {
        ConnectError::Protocol(self.peer.clone(), problem)
    }

    fn failed(&self, error: io::Error) -> ConnectError {
        use io::ErrorKind::{TimedOut, WouldBlock};
        match error.kind() {
            TimedOut | WouldBlock => match self.deadline.left(&self.peer) {
                Err(timed_out) => timed_out,
                Ok(_) => ConnectError::Exchange(self.peer.clone(), error),
            },
            _ => ConnectError::Exchange(self.peer.clone(), error),
        }
    }
}
