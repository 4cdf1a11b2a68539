//! Counts runs and collects failures.

use std::time::Instant;

/// The number of runs, and the failures.
#[derive(Default)]
pub(crate) struct RunTally {
    pub(crate) count: usize,
    pub(crate) failures: Vec<String>,
}

impl RunTally {
    /// Prints the totals; an error lists the failures.
    pub(crate) fn report(&self, start: Instant) -> Result<(), String> {
        let seconds = start.elapsed().as_secs_f32();
        println!("interop: {} runs in {seconds:.0} s, {} failed", self.count, self.failures.len());
        if self.failures.is_empty() {
            return Ok(());
        }
        Err(format!("{} of {} failed:\n{}", self.failures.len(), self.count, self.failures.join("\n")))
    }
}
