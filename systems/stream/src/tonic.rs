//! The addresses of a connection for tonic's server.

use std::net::SocketAddr;

use tonic::transport::server::Connected;

use crate::stream::RdmaStream;

/// The addresses of a connection, as handlers of tonic find them in the extensions of a request.
#[derive(Clone, Debug)]
pub struct RdmaConnectInfo {
    /// This end.
    pub local_addr: Option<SocketAddr>,
    /// The other end.
    pub peer_addr: Option<SocketAddr>,
}

impl Connected for RdmaStream {
    type ConnectInfo = RdmaConnectInfo;

    fn connect_info(&self) -> RdmaConnectInfo {
        RdmaConnectInfo { local_addr: self.local_addr().ok(), peer_addr: self.peer_addr().ok() }
    }
}
