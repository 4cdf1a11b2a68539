//! The control protocol between the two processes: lines of JSON over TCP; the client sends requests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::by_address::MeetingPoint;
use super::endpoint::EndpointInfo;
use super::spec::{Op, Test, TestTransport};
use crate::error::Error;

/// The version of the control protocol.
pub(crate) const VERSION: u32 = 3;
/// The longest line that is accepted; 262,144 endpoints fit.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// A peer that is silent for this long is gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// A request of the client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ControlRequest {
    /// Opens the connection.
    Hello { version: u32 },
    /// From now on, queue pairs connect by address.
    ByAddress,
    /// Asks for a measurement; has the client's endpoints.
    Measure { test: Test, endpoints: Vec<EndpointInfo> },
    /// Asks for a verified operation; has the client's endpoint.
    Verify { op: Op, transport: TestTransport, size_bytes: u32, endpoint: EndpointInfo },
    /// The client is done; asks for the server's results.
    Finish { messages: u64 },
    /// Ends the connection.
    Bye,
}

/// A response of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ControlReply {
    /// Opens the connection.
    Hello { version: u32 },
    /// The server agrees.
    Agreed,
    /// The server's endpoints are ready; where they connect by address, at this one.
    Endpoints { endpoints: Vec<EndpointInfo>, meeting: Option<MeetingPoint> },
    /// The server's results.
    Finished { messages: u64, verified: bool, detail: String },
    /// The server cannot execute the request.
    Failed { reason: String },
}

/// One end of the control connection.
pub(crate) struct ControlConnection {
    reader: BufReader<TcpStream>,
    by_address: bool,
}

impl ControlConnection {
    pub(crate) fn new(stream: TcpStream) -> io::Result<ControlConnection> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(ControlConnection { reader: BufReader::new(stream), by_address: false })
    }

    /// Connects and exchanges versions.
    pub(crate) fn connect(address: impl ToSocketAddrs) -> io::Result<ControlConnection> {
        let mut control = ControlConnection::new(TcpStream::connect(address)?)?;
        match control.request(&ControlRequest::Hello { version: VERSION })? {
            ControlReply::Hello { version } if version == VERSION => Ok(control),
            ControlReply::Hello { version } => {
                Err(io::Error::other(format!("the peer uses protocol version {version}, this program {VERSION}")))
            }
            other => Err(io::Error::other(format!("the peer answered {other:?} to a greeting"))),
        }
    }

    /// Agrees with the server that queue pairs connect by address.
    pub(crate) fn agree_on_addresses(&mut self) -> io::Result<()> {
        match self.request(&ControlRequest::ByAddress)? {
            ControlReply::Agreed => {
                self.by_address = true;
                Ok(())
            }
            other => Err(io::Error::other(format!("the peer answered {other:?} instead of agreeing"))),
        }
    }

    /// The server's part of [`agree_on_addresses`](ControlConnection::agree_on_addresses).
    pub(crate) fn agree(&mut self) -> io::Result<()> {
        self.by_address = true;
        self.send(&ControlReply::Agreed)
    }

    /// Whether queue pairs of the service connect by address, not by their numbers.
    pub(crate) fn is_by_address(&self, transport: TestTransport) -> bool {
        self.by_address && transport == TestTransport::Rc
    }

    /// Waits for a client.
    pub(crate) fn accept(listener: &TcpListener) -> io::Result<ControlConnection> {
        ControlConnection::new(listener.accept()?.0)
    }

    /// The local address of the connection, which the peer can reach.
    pub(crate) fn local(&self) -> io::Result<std::net::SocketAddr> {
        self.reader.get_ref().local_addr()
    }

    /// Sends a request and waits for the response. [`ControlReply::Failed`] is an error.
    pub(crate) fn request(&mut self, request: &ControlRequest) -> io::Result<ControlReply> {
        self.send(request)?;
        match self.receive()? {
            Some(ControlReply::Failed { reason }) => Err(io::Error::other(format!("the peer says: {reason}"))),
            Some(reply) => Ok(reply),
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer has gone")),
        }
    }

    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    /// The next message; `None` when the other end has closed the connection.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        let n = (&mut self.reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        match n {
            0 => Ok(None),
            _ if line.last() != Some(&b'\n') => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"))
            }
            _ => Ok(Some(serde_json::from_slice(&line)?)),
        }
    }
}

/// Waits for the client's message that it is done.
pub(crate) fn expect_finish(control: &mut ControlConnection) -> Result<u64, Error> {
    match control.receive::<ControlRequest>()? {
        Some(ControlRequest::Finish { messages }) => Ok(messages),
        Some(other) => Err(Error::Peer(format!("expected the end of a test, not {other:?}"))),
        None => Err(Error::Peer("the client disconnected during a test".into())),
    }
}
