//! What `longarm run` and `longarm pair` may be told alike.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use device::FaultPlan;
use hub::DeviceRecord;

use super::error::Failure;

/// How the program finds the device.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// What the program needs, as far as this machine allows
    Auto,
    /// The library path only
    Plain,
    /// A namespace with /sys/class/infiniband, /dev/infiniband and libibverbs of our own
    Namespace,
}

/// The options.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How the program finds the device
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub(crate) mode: Mode,
    /// Inject seeded faults, e.g. seed=7,loss=0.01,reorder=0.02
    #[arg(long, value_name = "PLAN")]
    pub(crate) faults: Option<String>,
    /// Write every packet to this pcapng file
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    /// Show the program only this device (repeatable)
    #[arg(long = "device", value_name = "NAME", value_delimiter = ',')]
    pub(crate) devices: Vec<String>,
    /// Tell what is done, and why
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// What the program's library reads: the devices to show.
pub(super) const DEVICES_VARIABLE: &str = "LONGARM_DEVICES";
const FAULTS_VARIABLE: &str = "LONGARM_FAULTS";
const CAPTURE_VARIABLE: &str = "LONGARM_CAPTURE";

impl Options {
    /// Says something if asked to.
    pub(crate) fn tell(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("longarm: {}", text());
        }
    }

    /// Checks what can be checked before anything is done.
    ///
    /// # Errors
    /// [`Failure::Usage`].
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Some(plan) = &self.faults else { return Ok(()) };
        let parsed = plan.parse::<FaultPlan>();
        parsed.map(drop).map_err(|problem| Failure::Usage(format!("--faults {plan}: {problem}")))
    }

    /// The environment that tells these options to the program's library.
    pub(super) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let faults = self.faults.as_ref().map(|plan| (FAULTS_VARIABLE, plan.into()));
        let capture = self.capture.as_ref().map(|path| (CAPTURE_VARIABLE, path.into()));
        let devices = (!self.devices.is_empty()).then(|| (DEVICES_VARIABLE, self.devices.join(",").into()));
        [faults, capture, devices].into_iter().flatten().collect()
    }

    /// The devices that the program shall see, with their numbers in the whole list.
    ///
    /// # Errors
    /// [`Failure::Usage`] if one does not exist.
    pub(super) fn chosen<'a>(&self, all: &'a [DeviceRecord]) -> Result<Vec<(usize, &'a DeviceRecord)>, Failure> {
        if let Some(missing) = self.devices.iter().find(|name| all.iter().all(|record| record.name != **name)) {
            let names: Vec<&str> = all.iter().map(|record| record.name.as_str()).collect();
            return Err(Failure::Usage(format!("there is no device {missing}; there are: {}", names.join(", "))));
        }
        let shown = |record: &DeviceRecord| self.devices.is_empty() || self.devices.contains(&record.name);
        Ok(all.iter().enumerate().filter(|(_, record)| shown(record)).collect())
    }
}
