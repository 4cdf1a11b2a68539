//! The client: a table as a program uses it.
//!
//! ```text
//!  table      operations          get, read_once  GETs, one-sided and by RPC       long   values in pieces
//!  range      ranges of ordered tables, one-sided and by RPC     range_steps   their steps, without READs
//!  answer     the meaning of a lookup's outcome
//!  put_alone  PUTs by lock, WRITE, unlock       alone_steps   their parts without a connection
//!  choose     requests whose way the client chooses      choice  from its own measurements
//!  reader     the connection for READs      remote_reader  readers of any layout      report   GETs that the server did not see
//!  link       the way to the server: sessions and connections; network  those of a device (a simulation has its own)
//!  session    the RPC session, and the right to the table: made again when they are lost
//!  placed     one table on several servers      members  their state
//!  term       the term of a member with backups, which readers of its memory mind
//!  opening    the messages that prove who may open a table
//! ```

mod alone_steps;
mod answer;
mod choice;
mod choose;
mod device;
mod get;
mod link;
mod long;
mod members;
mod network;
mod opening;
mod options;
mod orders;
mod placed;
mod put_alone;
mod range;
mod range_steps;
mod read_once;
mod reader;
mod remote_reader;
mod report;
mod session;
mod table;
mod term;

pub(crate) use alone_steps::{ALONE_PATIENCE, AlonePut, check_put_way, unknown_outcome};
pub(crate) use answer::Answer;
pub(crate) use choice::{ChoiceKind, Searcher, WayChoices};
pub(crate) use choose::ChosenWay;
pub(crate) use device::{MOST_UNDER_WAY, NoDeviceGets, looked_up, must_serve};
pub use get::KvValue;
pub use members::AskedMember;
pub(crate) use opening::TableOpening;
pub use options::{GetWay, KvOptions, PutWay};
pub use placed::KvCluster;
pub(crate) use placed::{MOMENT, PAUSE, REFRESH, may_follow, other_end};
pub use range_steps::KvItem;
pub(crate) use range_steps::{HeldItem, RangeAnswer, RangeProgress, RangeScan, must_have_order};
pub(crate) use reader::{LOCKED, pass_of};
pub(crate) use remote_reader::LookedUp;
pub(crate) use report::ReadReport;
pub(crate) use session::{ATTEMPT, Repeat, is_momentary};
pub use table::{KvStats, KvTable, TimeToLive};
pub(crate) use table::{LATER, is_long, scanned_keys};
#[cfg(any(test, feature = "sim"))]
pub(crate) use {
    link::{DataLink, EachEnded, KvNetwork, Requester},
    remote_reader::{EachFound, MakeValue, RemoteReader},
    session::TableSession,
};
