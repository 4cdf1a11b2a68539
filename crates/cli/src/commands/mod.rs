//! The hub's commands: `up`, `down`, `status`, `devices`.

mod devices;
mod hub;
mod status;

pub(crate) use devices::{DevicesArgs, devices};
pub(crate) use hub::{DownArgs, HubArgs, UpArgs, down, run_hub, up};
pub(crate) use status::{StatusArgs, status};
