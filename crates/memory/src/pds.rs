//! Protection domains: numbers, each with a count of its dependants.

use std::collections::HashMap;

use transport::PdId;

use crate::error::MrError;

/// All protection domains of a device.
#[derive(Default)]
pub(crate) struct Pds {
    uses: HashMap<PdId, usize>,
    next: u32,
}

impl Pds {
    /// A new domain. A number is not used again before all others have been.
    pub(crate) fn alloc(&mut self) -> PdId {
        loop {
            self.next = self.next.wrapping_add(1);
            let pd = PdId(self.next);
            if let std::collections::hash_map::Entry::Vacant(vacant) = self.uses.entry(pd) {
                vacant.insert(0);
                return pd;
            }
        }
    }

    /// Ends a domain that has no dependants.
    pub(crate) fn free(&mut self, pd: PdId) -> Result<(), MrError> {
        match self.uses.get(&pd) {
            None => Err(MrError::UnknownPd),
            Some(0) => {
                self.uses.remove(&pd);
                Ok(())
            }
            Some(_) => Err(MrError::Busy),
        }
    }

    /// Adds a dependant.
    pub(crate) fn retain(&mut self, pd: PdId) -> Result<(), MrError> {
        *self.uses.get_mut(&pd).ok_or(MrError::UnknownPd)? += 1;
        Ok(())
    }

    /// Removes a dependant.
    pub(crate) fn release(&mut self, pd: PdId) {
        let uses = self.uses.get_mut(&pd).filter(|uses| **uses > 0);
        *uses.expect("a released domain was retained") -= 1;
    }
}
