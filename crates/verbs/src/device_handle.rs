//! The part of an open device that all its objects keep.

use std::io;
use std::sync::OnceLock;

use ::device::{Capabilities, Limits};
use abi::ibv_context;

use crate::addresses::{self, GidEntry};
use crate::failure::FailureTable;
use crate::info;
use crate::library::Verbs;
use crate::opened::OpenedContext;
use crate::quirks::DeviceQuirks;
use crate::reactor::Reactor;

/// The part that all objects of the device keep.
#[derive(Debug)]
pub(crate) struct DeviceHandle {
    pub(crate) library: &'static Verbs,
    pub(crate) reactor: Reactor,
    pub(crate) failures: FailureTable,
    name: String,
    is_iwarp: bool,
    limits: OnceLock<Limits>,
    capabilities: OnceLock<Capabilities>,
    quirks: OnceLock<DeviceQuirks>,
}

impl DeviceHandle {
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub(crate) fn new(context: OpenedContext, name: &str) -> io::Result<DeviceHandle> {
        Ok(DeviceHandle {
            library: context.library,
            is_iwarp: context.is_iwarp,
            reactor: Reactor::start(context)?,
            failures: FailureTable::default(),
            name: name.to_owned(),
            limits: OnceLock::new(),
            capabilities: OnceLock::new(),
            quirks: OnceLock::new(),
        })
    }

    /// Its limits; `find` finds them out at the first call.
    pub(crate) fn limits(&self, find: impl FnOnce() -> Limits) -> Limits {
        *self.limits.get_or_init(find)
    }

    /// Its capabilities; `find` finds them out at the first call.
    pub(crate) fn capabilities(&self, find: impl FnOnce() -> Capabilities) -> Capabilities {
        *self.capabilities.get_or_init(find)
    }

    pub(crate) fn quirks(&self) -> &DeviceQuirks {
        self.quirks.get_or_init(|| DeviceQuirks::of(info::vendor_id(self)))
    }

    pub(crate) fn context(&self) -> *mut ibv_context {
        self.reactor.context()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_iwarp(&self) -> bool {
        self.is_iwarp
    }

    /// The usable entries of the port's GID table.
    pub(crate) fn gids(&self) -> Vec<GidEntry> {
        // SAFETY: the handle keeps its object, an open context.
        unsafe { addresses::table(self.library, self.context(), info::is_ethernet(self)) }
    }
}
