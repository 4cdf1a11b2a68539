//! The common options of `longarm run` and `longarm pair`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use device::FaultPlan;
use hub::DeviceRecord;

use super::error::StartFailure;

/// The means by which the program finds the device.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunMode {
    /// Choose by the program's needs, as far as this machine allows
    Auto,
    /// The library path only
    Plain,
    /// A namespace with Longarm's /sys/class/infiniband, /dev/infiniband and libibverbs
    Namespace,
}

/// The registered memory that moves to pages that processes on this host share; the default is `safe`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adopt {
    /// Memory whose move the program provably cannot notice
    Safe,
    /// All memory that can move: wrong bytes for programs that use io_uring, direct I/O or other threads on it
    Always,
    /// None; peers on this host reach it through the kernel, or its owner serves them
    Never,
}

/// The common options.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunOptions {
    /// Means by which the program finds the device
    #[arg(long, value_enum, default_value_t = RunMode::Auto)]
    pub(crate) mode: RunMode,
    /// Inject seeded faults, e.g. seed=7,loss=0.01,reorder=0.02
    #[arg(long, value_name = "PLAN")]
    pub(crate) faults: Option<String>,
    /// Write every packet to this pcapng file, including those that shared memory replaces
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    /// Send packets to processes on this host too, instead of sharing memory with them
    #[arg(long)]
    pub(crate) wire: bool,
    /// Load the library before all others, for programs that carry a renamed libibverbs
    #[arg(long)]
    pub(crate) preload: bool,
    /// Registered memory that moves to pages that processes on this host share
    #[arg(long, value_enum)]
    pub(crate) adopt: Option<Adopt>,
    /// Show the program only this device (repeatable)
    #[arg(long = "device", value_name = "NAME", value_delimiter = ',')]
    pub(crate) devices: Vec<String>,
    /// If the program is missing, install the Debian package that contains it
    #[arg(long)]
    pub(crate) install: bool,
    /// Report the steps and their reasons
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// The variable by which the program's library gets the list of devices to show.
pub(crate) const DEVICES_VARIABLE: &str = "LONGARM_DEVICES";
const FAULTS_VARIABLE: &str = "LONGARM_FAULTS";
const CAPTURE_VARIABLE: &str = "LONGARM_CAPTURE";
const LOCAL_VARIABLE: &str = "LONGARM_LOCAL";
const ADOPT_VARIABLE: &str = "LONGARM_ADOPT";

impl RunOptions {
    /// Prints a text if `--verbose` is set.
    pub(crate) fn report(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("longarm: {}", text());
        }
    }

    /// Checks the options before any step is taken.
    ///
    /// # Errors
    /// [`StartFailure::Usage`].
    pub(crate) fn check(&self) -> Result<(), StartFailure> {
        let Some(plan) = &self.faults else { return Ok(()) };
        let parsed = plan.parse::<FaultPlan>();
        parsed.map(drop).map_err(|problem| StartFailure::Usage(format!("--faults {plan}: {problem}")))
    }

    /// The variables that pass these options to the program's library.
    pub(super) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let faults = self.faults.as_ref().map(|plan| (FAULTS_VARIABLE, plan.into()));
        // Absolute, because the program may change its directory. (`absolute` fails for the empty path only.)
        let capture = self.capture.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
        let capture = capture.map(|path| (CAPTURE_VARIABLE, path.into()));
        let devices = (!self.devices.is_empty()).then(|| (DEVICES_VARIABLE, self.devices.join(",").into()));
        let local = self.wire.then(|| (LOCAL_VARIABLE, "off".into()));
        let adopt = self.adopt.and_then(|adopt| adopt.to_possible_value());
        let adopt = adopt.map(|adopt| (ADOPT_VARIABLE, adopt.get_name().into()));
        [faults, capture, local, adopt, devices].into_iter().flatten().collect()
    }

    /// The devices that the program shall see, in the order of its library: in the order of the options,
    /// else with the preferred one first.
    ///
    /// # Errors
    /// [`StartFailure::Usage`] if one does not exist.
    pub(super) fn chosen<'a>(&self, all: &'a [DeviceRecord]) -> Result<Vec<&'a DeviceRecord>, StartFailure> {
        let is = |record: &DeviceRecord, name: &String| record.name == *name || record.interface == *name;
        if let Some(missing) = self.devices.iter().find(|name| !all.iter().any(|record| is(record, name))) {
            let names: Vec<&str> = all.iter().map(|record| record.name.as_str()).collect();
            return Err(StartFailure::Usage(format!("there is no device {missing}; there are: {}", names.join(", "))));
        }
        let shown =
            |record: &&DeviceRecord| self.devices.is_empty() || self.devices.iter().any(|name| is(record, name));
        let mut chosen: Vec<&DeviceRecord> = all.iter().filter(shown).collect();
        chosen.sort_by_key(|record| (self.devices.iter().position(|name| is(record, name)), !record.preferred));
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(devices: &[&str], faults: Option<&str>) -> RunOptions {
        RunOptions {
            mode: RunMode::Auto,
            faults: faults.map(str::to_owned),
            capture: None,
            wire: false,
            preload: false,
            adopt: None,
            devices: devices.iter().map(|name| name.to_string()).collect(),
            install: false,
            verbose: false,
        }
    }

    fn records() -> Vec<DeviceRecord> {
        let record = |interface: &str, preferred| {
            let text = format!(
                r#"{{"name": "la_{interface}", "interface": "{interface}", "interface_index": 1, "mtu_bytes": 1500,
                    "node_guid": "0000:0000:0000:0001", "port_guid": "0000:0000:0000:0001", "link_up": true,
                    "speed_mbps": 0, "loopback": false, "preferred": {preferred}, "gids": []}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        vec![record("lo", false), record("eth0", true), record("eth1", false)]
    }

    #[test]
    fn devices_are_chosen_by_their_name_or_their_interface() {
        let names = |chosen: &[&str]| -> Vec<String> {
            let records = records();
            let chosen = options(chosen, None).chosen(&records).unwrap();
            chosen.iter().map(|record| record.name.clone()).collect()
        };
        assert_eq!(names(&[]), ["la_eth0", "la_lo", "la_eth1"]);
        assert_eq!(names(&["lo", "la_eth1"]), ["la_lo", "la_eth1"]);
        assert_eq!(names(&["eth1", "lo", "eth0"]), ["la_eth1", "la_lo", "la_eth0"]);
        let problem = options(&["la_x"], None).chosen(&records()).unwrap_err().to_string();
        assert!(problem.contains("la_x") && problem.contains("la_eth1"), "{problem}");
    }

    #[test]
    fn a_fault_plan_is_checked_first() {
        assert!(options(&[], Some("seed=7,loss=0.1")).check().is_ok());
        let problem = options(&[], Some("loss=often")).check().unwrap_err();
        assert!(problem.to_string().contains("loss"), "{problem}");
    }

    #[test]
    fn the_library_is_told_what_was_asked() {
        let mut options = options(&["la_lo", "eth0"], Some("loss=0.1"));
        options.capture = Some("/x.pcapng".into());
        options.wire = true;
        let expected = [
            (FAULTS_VARIABLE, "loss=0.1"),
            (CAPTURE_VARIABLE, "/x.pcapng"),
            (LOCAL_VARIABLE, "off"),
            (DEVICES_VARIABLE, "la_lo,eth0"),
        ];
        assert_eq!(options.variables(), expected.map(|(name, value)| (name, OsString::from(value))));
    }
}
