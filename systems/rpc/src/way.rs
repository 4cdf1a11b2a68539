//! The five ways, by name.

use std::fmt;
use std::str::FromStr;

use longarm::Device;
use serde::{Deserialize, Serialize};

/// A way to carry requests and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Both sides WRITE into rings in the other's memory and poll their own (FaRM).
    Ring,
    /// Requests are unreliable WRITEs into slots that the server polls; replies are datagrams (HERD).
    Herd,
    /// Requests and replies are datagrams (FaSST, eRPC).
    Datagram,
    /// Requests are WRITEs with immediate data: one completion queue tells of all clients (Octopus).
    Immediate,
    /// Replies stay with the server until the client READs them (RFP).
    Fetch,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 5] = [Way::Ring, Way::Herd, Way::Datagram, Way::Immediate, Way::Fetch];

    /// The word by which options and results name it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Ring => "ring",
            Way::Herd => "herd",
            Way::Datagram => "datagram",
            Way::Immediate => "immediate",
            Way::Fetch => "fetch",
        }
    }

    /// True if a session of this way can run on the device.
    pub fn runs_on(self, device: &Device) -> bool {
        let has = device.capabilities();
        match self {
            Way::Ring | Way::Fetch => true,
            Way::Herd => has.uc && has.ud,
            Way::Datagram => has.ud,
            Way::Immediate => has.immediate,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of a word that names no way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no way; the ways are ring, herd, datagram, immediate and fetch")]
pub struct UnknownWay(String);

impl FromStr for Way {
    type Err = UnknownWay;

    fn from_str(word: &str) -> Result<Way, UnknownWay> {
        Way::ALL.into_iter().find(|way| way.name() == word).ok_or_else(|| UnknownWay(word.to_string()))
    }
}
