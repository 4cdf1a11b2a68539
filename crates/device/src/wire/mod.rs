//! Packets without their queue pairs: routes, staging, the receive side, and the budgets of destinations.

pub(crate) mod destination;
pub(crate) mod packets;
pub(crate) mod route;
pub(crate) mod rx;
pub(crate) mod staging;
