//! Errors of commands, with texts that tell the user what to do.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Open(#[from] device::OpenError),
    #[error(transparent)]
    Device(#[from] device::Error),
    #[error("a work request was refused: {0}")]
    Post(#[from] device::PostFailure),
    #[error(transparent)]
    Cq(#[from] device::CqError),
    #[error("cannot write the capture: {0}")]
    Capture(#[from] device::CaptureError),
    #[error(transparent)]
    Attach(#[from] hub::client::AttachError),
    #[error("no device has the address {0}: `longarm devices` lists the devices")]
    NoDevice(IpAddr),
    #[error("{device} has no {what}: `longarm perf` can measure its other operations")]
    Lacks { device: String, what: &'static str },
    #[error("{0} has no IP address: give its network interface one, or name another with --address")]
    NoAddress(String),
    #[error(
        "{0} is an iWARP device: its queue pairs connect by address only, and this command exchanges their numbers"
    )]
    ByAddressOnly(String),
    #[error("the connection manager: {0}")]
    Cm(#[from] connect::Error),
    #[error("a work request failed: {0}")]
    Completion(String),
    #[error(transparent)]
    Rpc(#[from] longarm_rpc::Status),
    #[error(transparent)]
    Kv(#[from] longarm_kv::KvError),
    #[error(transparent)]
    KvServer(#[from] longarm_kv::KvServerError),
    #[error(transparent)]
    Resp(#[from] longarm_resp::RespError),
    #[error(transparent)]
    Region(#[from] remote::RegionError),
    #[error("nothing happened for {} s: is the peer still there?", .0.as_secs())]
    Silence(Duration),
    #[error("{0}")]
    Peer(String),
    #[error("{0}: {1}")]
    File(String, io::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}
