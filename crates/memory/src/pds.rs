//! Protection domains: numbers with a count of what depends on them.

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
    /// A new one. Numbers are not used again before all others have been.
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

    /// Ends one that nothing depends on.
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

    /// Counts something that depends on it.
    pub(crate) fn retain(&mut self, pd: PdId) -> Result<(), MrError> {
        *self.uses.get_mut(&pd).ok_or(MrError::UnknownPd)? += 1;
        Ok(())
    }

    /// Counts it off.
    pub(crate) fn release(&mut self, pd: PdId) {
        let uses = self.uses.get_mut(&pd).filter(|uses| **uses > 0);
        *uses.expect("what is released was retained") -= 1;
    }
}
