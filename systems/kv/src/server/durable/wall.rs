//! From the server's clock, which begins at boot, to the time of day, and back.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::now_ns;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockPair {
    pub(crate) boot_ns: u64,
    pub(crate) unix_ns: u64,
}

impl ClockPair {
    /// Both clocks now.
    pub(crate) fn now() -> ClockPair {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ClockPair { boot_ns: now_ns(), unix_ns: unix.as_nanos() as u64 }
    }

    /// An expiry for the disk; zero stays zero.
    pub(crate) fn at_unix(self, expires_ns: u64) -> u64 {
        match expires_ns {
            0 => 0,
            // The least that stands for an expiry is 1.
            _ => self.unix_ns.saturating_add(expires_ns).saturating_sub(self.boot_ns).max(1),
        }
    }

    /// An expiry from the disk, in the server's clock; `None` if it is over.
    pub(crate) fn at_boot(self, expires_unix_ns: u64) -> Option<u64> {
        match expires_unix_ns {
            0 => Some(0),
            _ => {
                let left = expires_unix_ns.checked_sub(self.unix_ns).filter(|left| *left > 0)?;
                Some(self.boot_ns.saturating_add(left))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_outlive_a_boot() {
        let before = ClockPair { boot_ns: 1_000_000, unix_ns: 50_000_000 };
        let on_disk = before.at_unix(1_000_500);
        assert_eq!((on_disk, before.at_unix(0), before.at_unix(u64::MAX)), (50_000_500, 0, u64::MAX - 1_000_000));
        // The machine has booted anew.
        let after = ClockPair { boot_ns: 7, unix_ns: 50_000_400 };
        assert_eq!((after.at_boot(on_disk), after.at_boot(0)), (Some(107), Some(0)));
        assert_eq!(ClockPair { boot_ns: 7, unix_ns: 50_000_500 }.at_boot(on_disk), None);
        assert_eq!(after.at_boot(u64::MAX), Some(u64::MAX - 50_000_393));
    }
}
