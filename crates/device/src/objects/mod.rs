//! The objects of a device, and the tables and counters of its engine. None of them knows the engine.

pub(crate) mod capabilities;
pub(crate) mod capture;
pub(crate) mod channel;
pub(crate) mod counters;
pub(crate) mod cq;
mod cq_state;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod faults;
pub(crate) mod ids;
pub(crate) mod info;
pub(crate) mod limits;
pub(crate) mod mr;
pub(crate) mod multicast;
pub(crate) mod owner;
pub(crate) mod pd;
pub(crate) mod provider;
pub(crate) mod quota;
pub(crate) mod signal;
pub(crate) mod single;
pub(crate) mod srq;
pub(crate) mod table;
pub(crate) mod users;
pub(crate) mod xrc;
