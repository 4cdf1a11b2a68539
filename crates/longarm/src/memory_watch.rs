//! A thread that sleeps until a peer changes this process's memory.

use crate::MemoryWatch;
use crate::error::ResourceError;
use crate::open_device::Device;

impl Device {
    /// Makes a watch over the memory of this process, for a thread that sleeps until a peer changes it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(device: longarm::Device, mail_has_come: impl Fn() -> bool) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut watch = device.memory_watch()?;
    /// while !mail_has_come() {
    ///     let longest = if watch.arm() { Duration::from_secs(1) } else { Duration::from_millis(1) };
    ///     // Look once more: from the arming on a change ends the wait.
    ///     if !mail_has_come() {
    ///         watch.wait(longest)?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the system has no descriptor for it. Devices of the system have no such watch: poll their memory in naps.
    pub fn memory_watch(&self) -> Result<MemoryWatch, ResourceError> {
        Ok(self.handle().watch_memory()?)
    }
}
