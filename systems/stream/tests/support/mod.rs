//! A process with a hub and a network namespace of its own, and streams in it.
#![allow(dead_code, reason = "each test file uses a part")]

use std::future::Future;
use std::process::{Child, Command};

use longarm_stream::{RdmaListener, RdmaStream, StreamConfig};

/// The address of the server, for a peer process.
pub(crate) const ADDRESS: &str = "STREAM_TEST_ADDRESS";

/// Runs `body` there, on a runtime. To be called from the test function of that name itself.
pub(crate) fn with_hub<F: Future<Output = ()>>(test: &str, body: impl FnOnce() -> F) {
    if testkit::role().is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(body());
    }
    hub::testing::passes_with_hub(&format!("stream-{test}"), testkit::run_again(test, "body"));
}

/// True in the process that [`peer`] started.
pub(crate) fn is_peer() -> bool {
    testkit::role().as_deref() == Some("peer")
}

/// The same test in another process, which finds the listener's address.
pub(crate) fn peer(test: &str, listener: &RdmaListener) -> PeerProcess {
    PeerProcess(peer_command(test, listener).spawn().unwrap())
}

pub(crate) fn peer_command(test: &str, listener: &RdmaListener) -> Command {
    let mut command = testkit::run_again(test, "peer");
    command.env(ADDRESS, listener.local_addr().unwrap().to_string());
    command
}

/// A process, killed at the end if it still runs.
pub(crate) struct PeerProcess(pub(crate) Child);

impl PeerProcess {
    pub(crate) fn must_succeed(mut self) {
        assert!(self.0.wait().unwrap().success(), "the peer failed");
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A stream to the server, in a peer process.
pub(crate) async fn to_server() -> RdmaStream {
    RdmaStream::connect(std::env::var(ADDRESS).unwrap()).await.unwrap()
}

pub(crate) async fn listener(config: &StreamConfig) -> RdmaListener {
    config.bind("127.0.0.1:0").await.unwrap()
}

/// Both ends of a connection.
pub(crate) async fn pair(config: &StreamConfig) -> (RdmaStream, RdmaStream) {
    let listener = listener(config).await;
    let (client, server) = tokio::join!(config.connect(listener.local_addr().unwrap()), listener.accept());
    (client.unwrap(), server.unwrap())
}

pub(crate) fn pattern(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(|at| (at * 7 + at / 251 + (at >> 17)) as u8).collect()
}
