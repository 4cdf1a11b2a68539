//! Switches that the literature discusses, for both ends of a measurement.

use longarm_rpc::VerbsTuning;

/// The library's use of the verbs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct BenchSwitches {
    /// One of how many requests of a send queue has a completion of its own
    #[arg(long, value_name = "REQUESTS", default_value_t = VerbsTuning::default().signal_every, value_parser = clap::value_parser!(u32).range(1..=64))]
    signal_every: u32,
    /// Give each request a doorbell of its own, and on the wire a system call
    #[arg(long)]
    single_doorbells: bool,
    /// WRITEs up to this length carry their bytes inline
    #[arg(long, value_name = "BYTES", default_value_t = VerbsTuning::default().inline_bytes, value_parser = clap::value_parser!(u32).range(0..=220))]
    inline: u32,
    /// Register the memory of all clients, and of all sessions of a client thread, as one region
    #[arg(long)]
    one_region: bool,
}

impl BenchSwitches {
    pub(super) fn tuning(&self) -> VerbsTuning {
        VerbsTuning {
            signal_every: self.signal_every,
            batch_doorbells: !self.single_doorbells,
            inline_bytes: self.inline,
            one_region: self.one_region,
        }
    }

    /// The arguments that give another process the same.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![format!("--signal-every={}", self.signal_every), format!("--inline={}", self.inline)];
        arguments.extend(self.single_doorbells.then(|| "--single-doorbells".into()));
        arguments.extend(self.one_region.then(|| "--one-region".into()));
        arguments
    }
}
