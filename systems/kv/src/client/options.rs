//! Settings of a client.

use std::time::Duration;

use longarm_rpc::ClientOptions;

use crate::proof::TableSecret;

/// The way by which a client GETs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GetWay {
    /// The client reads the server's memory alone (FaRM, Pilaf, DrTM-KV): the server's processor does nothing.
    #[default]
    OneSided,
    /// The client asks, and the server answers (HERD).
    Rpc,
    /// The client calls, and the server's device answers without the server's program (KV-Direct). Long keys and values, and ranges,
    /// go by RPC. Both devices must be Longarm's own.
    Device,
}

impl GetWay {
    /// All of them.
    pub const ALL: [GetWay; 3] = [GetWay::OneSided, GetWay::Rpc, GetWay::Device];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            GetWay::OneSided => "one-sided",
            GetWay::Rpc => "rpc",
            GetWay::Device => "device",
        }
    }
}

/// Settings of a client of one table.
#[derive(Clone, Debug)]
pub struct KvOptions {
    /// The table's secret, if it has one.
    pub secret: Option<TableSecret>,
    /// The way by which it GETs.
    pub get: GetWay,
    /// Keys whose places it remembers.
    pub locations: usize,
    /// GETs under way at a time in a multi-get.
    pub outstanding: usize,
    /// The time that an operation may take, reconnection included.
    pub timeout: Duration,
    /// Settings of its RPC session.
    pub rpc: ClientOptions,
}

impl Default for KvOptions {
    fn default() -> KvOptions {
        KvOptions {
            secret: None,
            get: GetWay::OneSided,
            locations: 1 << 16,
            outstanding: 16,
            timeout: Duration::from_secs(5),
            rpc: ClientOptions::default(),
        }
    }
}
