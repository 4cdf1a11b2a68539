//! The connection manager as a value: chapter 12 of the InfiniBand specification without sockets,
//! clocks or threads.
//!
//! ```text
//!  calls: connect, accept, ...  ─►  ┌─────────┐  ─► ManagerOutput::Send   MADs for QP1
//!  receive(route, mad)          ─►  │ Manager │  ─► ManagerOutput::Event  Request, Reply, ReadyToUse, ...
//!  expire(now)                  ─►  └─────────┘  ─► next_timeout
//! ```
//! A [`Manager`] holds every connection of one process. Time is an argument of every call, a
//! [`Duration`](core::time::Duration) since any fixed start; [`Manager::poll`] is to be called until `None` after each.
//! It does not know listeners: the caller finds one before it passes a REQ or SIDR_REQ in.
//!
//! ```text
//!  active                                                        passive
//!  ReqSent ── REQ ─────────────────────────────────────────────► ReqReceived      Event::Request
//!     │    ◄──────────────────────────────── MRA ──┐                 │ delay
//!  MraReqReceived                                  └─────────────────┤
//!     ▼    ◄──────────────────────────────── REP ────────────────────▼ accept
//!  RepReceived   Event::Reply                                     RepSent
//!     ▼ confirm ─ RTU ─────────────────────────────────────────────► ▼
//!  Established                                                    Established      Event::ReadyToUse
//!     ▼ disconnect ─ DREQ ─────────────────────────────────────────► ▼
//!  DreqSent                                                       DreqReceived     Event::DisconnectRequest
//!     ▼    ◄──────────────────────────────── DREP ────────────────── ▼ disconnect
//!  TimeWait      Event::Disconnected                              TimeWait
//!     ▼          Event::TimewaitExit                                 ▼             Event::TimewaitExit
//!  Idle: until the caller destroys the id                         Idle
//! ```
//! Messages come from strangers. A message that does not fit changes nothing and is counted ([`Counters`]). The memory
//! that strangers can make it hold is limited.
#![forbid(unsafe_code)]

mod call;
mod config;
mod counters;
mod error;
mod event;
mod ids;
pub mod ip;
mod manager;
mod messages;
mod refuse;
mod table;
pub mod time;

pub use call::{
    ConnId, ConnectReply, ConnectRequest, ConnectionType, Ece, LINUX_ACK_DELAY, LINUX_MAX_RETRIES,
    LINUX_PACKET_LIFETIME, LINUX_RESPONSE_TIMEOUT, MadRoute, SidrReply, SidrRequest,
};
pub use config::Config;
pub use counters::Counters;
pub use error::Error;
pub use event::{
    ClosingMad, CmEvent, ManagerOutput, RejectReceived, ReplyReceived, RequestReceived, SidrReplyReceived,
    SidrRequestReceived,
};
pub use manager::Manager;
pub use refuse::refuse;
