//! The memory and the carrier of a session, by its way.

use longarm::{ProtectionDomain, ResourceError};

use crate::carrier::{Carrier, ImmediateCarrier, RING_START_BYTES, RingCarrier};
use crate::handshake::SessionSizes;
use crate::verbs::VerbsArea;
use crate::way::Way;

/// The facts that a carrier is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarrierPlan {
    pub(crate) way: Way,
    pub(crate) sizes: SessionSizes,
    /// The number of the session at the server.
    pub(crate) session: u32,
    /// The client sleeps while it waits.
    pub(crate) client_sleeps: bool,
}

impl CarrierPlan {
    /// Bytes that the peer writes at either end.
    fn written_bytes(&self) -> u64 {
        match self.way {
            Way::Ring => RING_START_BYTES + u64::from(self.sizes.ring_bytes),
            _ => self.sizes.slots_bytes(),
        }
    }

    /// The area that the peer writes.
    pub(crate) fn area(&self, domain: &ProtectionDomain) -> Result<VerbsArea, ResourceError> {
        VerbsArea::written(domain, self.written_bytes())
    }

    /// The client's carrier; `None` if this release has none for the way.
    pub(crate) fn client(&self) -> Option<Carrier> {
        self.carrier(true)
    }

    /// The server's carrier; `None` if this release has none for the way.
    pub(crate) fn server(&self) -> Option<Carrier> {
        self.carrier(self.client_sleeps)
    }

    fn carrier(&self, tells: bool) -> Option<Carrier> {
        let SessionSizes { slots, slot_bytes, ring_bytes, .. } = self.sizes;
        match self.way {
            Way::Ring => Some(Carrier::Ring(RingCarrier::new(u64::from(ring_bytes)))),
            Way::Immediate => {
                let (slot_bytes, node) = (u64::from(slot_bytes), self.session as u16);
                Some(Carrier::Immediate(ImmediateCarrier::new(slots, slot_bytes, node, tells)))
            }
            _ => None,
        }
    }
}
