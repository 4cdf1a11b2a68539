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
    /// The client measures both ways and takes the faster for each request (Cell). A server that does not answer in time is no
    /// hindrance: the client reads alone then.
    Choose,
}

impl GetWay {
    /// All of them.
    pub const ALL: [GetWay; 4] = [GetWay::OneSided, GetWay::Rpc, GetWay::Device, GetWay::Choose];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            GetWay::OneSided => "one-sided",
            GetWay::Rpc => "rpc",
            GetWay::Device => "device",
            GetWay::Choose => "choose",
        }
    }
}

/// The way by which a client PUTs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PutWay {
    /// The client asks, and the server changes the table.
    #[default]
    Rpc,
    /// The client locks the object by compare-and-swap, WRITEs it and unlocks it (DrTM-KV): the server's processor does
    /// nothing. So for keys that are there, stay, and have a block that the value fits; the rest goes by request. The
    /// table must be [writable](crate::TableOptions::writable), and GETs [one-sided](GetWay::OneSided).
    OneSided,
}

impl PutWay {
    /// All of them.
    pub const ALL: [PutWay; 2] = [PutWay::Rpc, PutWay::OneSided];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            PutWay::Rpc => "rpc",
            PutWay::OneSided => "one-sided",
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
    /// The way by which it PUTs.
    pub put: PutWay,
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
            put: PutWay::Rpc,
            locations: 1 << 16,
            outstanding: 16,
            timeout: Duration::from_secs(5),
            rpc: ClientOptions::default(),
        }
    }
}
