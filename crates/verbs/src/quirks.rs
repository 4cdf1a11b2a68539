//! Faults of drivers that programs would notice, and what this crate does about them.

use std::ffi::c_uint;

use abi::IBV_WC_WITH_INV;

/// `RXE_VENDOR_ID` in the kernel's `drivers/infiniband/sw/rxe`.
const RXE: u32 = 0xff_ffff;
/// `SIW_VENDOR_ID` in the kernel's `drivers/infiniband/sw/siw`.
pub(crate) const SIW: u32 = 0x62_6d74;

/// The differences between a device and the manual pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeviceQuirks {
    /// The flag of a completion whose message invalidated a key. Linux rxe hands programs the kernel's flags
    /// (`IB_WC_WITH_INVALIDATE`), of which this one differs.
    pub(crate) invalidated_flag: c_uint,
    /// Whether messages that the peer wants noticed cause events. On Linux siw they do not, so completion queues ask for an
    /// event at each completion there.
    pub(crate) tells_solicited: bool,
    /// Whether requests that are posted to a queue pair in the error state complete. On Linux siw they never do.
    pub(crate) completes_late_requests: bool,
    /// Whether a receive may have an empty list. Linux siw refuses it.
    pub(crate) receives_without_entries: bool,
    /// The capacity with which completion queues are made. Linux siw cannot resize them.
    pub(crate) usual_cqe: u32,
}

impl DeviceQuirks {
    const NONE: DeviceQuirks = DeviceQuirks {
        invalidated_flag: IBV_WC_WITH_INV,
        tells_solicited: true,
        completes_late_requests: true,
        receives_without_entries: true,
        usual_cqe: 1 << 13,
    };

    /// Those of a vendor's devices.
    pub(crate) fn of(vendor_id: u32) -> DeviceQuirks {
        match vendor_id {
            RXE => DeviceQuirks { invalidated_flag: 1 << 2, ..DeviceQuirks::NONE },
            SIW => DeviceQuirks {
                tells_solicited: false,
                completes_late_requests: false,
                receives_without_entries: false,
                usual_cqe: 1 << 16,
                ..DeviceQuirks::NONE
            },
            _ => DeviceQuirks::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_drivers_have_faults() {
        assert_eq!(DeviceQuirks::of(0x15b3), DeviceQuirks::NONE);
        assert_ne!(DeviceQuirks::of(RXE).invalidated_flag, IBV_WC_WITH_INV);
        assert!(!DeviceQuirks::of(SIW).tells_solicited);
    }
}
