//! The hub's commands `up`, `down`, `status`, `devices`, and those that describe the command to shells and readers.

mod describe;
mod devices;
mod hub;
mod status;

pub(crate) use describe::{CompletionsArgs, ManPagesArgs, completions, man_pages};
pub(crate) use devices::{DevicesArgs, devices};
pub(crate) use hub::{DownArgs, HubArgs, UpArgs, down, run_hub, up};
pub(crate) use status::{StatusArgs, status};
