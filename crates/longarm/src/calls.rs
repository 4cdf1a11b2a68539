//! Calls that the device carries out by the handler of a region, without the program.

use std::fmt;
use std::sync::Arc;

use memory::RemoteCall;
use transport::ReplyBytes;
use wire::Qpn;

use crate::error::ResourceError;
use crate::region::{MemoryRegion, RegionCore};

/// One [call](crate::QueuePair::call) of a peer, as its handler sees it.
#[derive(Debug)]
pub struct RegionCall<'a> {
    call: &'a RemoteCall<'a>,
    memory: &'a MemoryRegion,
}

impl RegionCall<'_> {
    /// The request. It comes from a peer: check it.
    pub fn request(&self) -> &[u8] {
        self.call.request
    }

    /// The place in the region that the peer has named: its key's first byte. It is inside.
    pub fn offset(&self) -> u64 {
        self.call.offset
    }

    /// The region. Peers change it meanwhile as far as they have rights, and so do calls on other threads.
    pub fn memory(&self) -> &MemoryRegion {
        self.memory
    }

    /// The queue pair of ours that the call came to.
    pub fn qpn(&self) -> Qpn {
        self.call.qpn
    }
}

impl MemoryRegion {
    /// Lets the device carry out the calls that peers make to this region, by `handler`, until the returned value is
    /// dropped. The region needs the right [`REMOTE_CALL`](crate::Access::REMOTE_CALL). Windows onto it that have this right
    /// lead to the same handler.
    ///
    /// The handler runs on whichever thread drives the device: also while the program sleeps. Each call runs once, in the order
    /// of its connection; calls of several connections may run at the same time. The reply goes back when the handler
    /// returns. If it panics, the connection ends, and the peer's call fails as
    /// [`RemoteOperation`](crate::Status::RemoteOperation).
    ///
    /// A connection is locked while its call runs. So a handler is short, never blocks, and uses no queue pair and no completion
    /// queue: that may wait for ever. The region's own methods are fine.
    ///
    /// ```no_run
    /// # use longarm::{Access, Device};
    /// # let domain = Device::open()?.protection_domain()?;
    /// let counters = domain.expose(8 * 1024, Access::REMOTE_CALL)?;
    /// let served = counters.serve_calls(|call, reply| {
    ///     let before = call.memory().fetch_add(call.offset() & !7, call.request().len() as u64);
    ///     let _ = reply.append(&before.unwrap_or_default().to_be_bytes());
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// It is an extension of Longarm's: docs/extensions.md.
    ///
    /// # Errors
    /// If the region has a handler, or its device is one of the system.
    pub fn serve_calls<H>(&self, handler: H) -> Result<ServedCalls, ResourceError>
    where
        H: Fn(&RegionCall<'_>, &mut ReplyBytes) + Send + Sync + 'static,
    {
        let memory = self.share();
        let carry_out = move |call: &RemoteCall<'_>, reply: &mut ReplyBytes| {
            handler(&RegionCall { call, memory: &memory }, reply);
        };
        self.core().mr.serve_calls(Box::new(carry_out))?;
        Ok(ServedCalls { core: Arc::clone(self.core()) })
    }
}

/// The service of a region's calls, from [`MemoryRegion::serve_calls`], which has an example.
///
/// Dropping it waits for the calls under way; peers' later calls are refused. The handler must not drop it. It keeps the
/// region registered.
#[must_use = "the service ends when it is dropped"]
pub struct ServedCalls {
    core: Arc<RegionCore>,
}

impl Drop for ServedCalls {
    fn drop(&mut self) {
        self.core.mr.stop_calls();
    }
}

impl fmt::Debug for ServedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServedCalls({:?})", self.core.mr.rkey())
    }
}
