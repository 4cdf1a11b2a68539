//! Long separators: blocks of bytes that nodes share. The owner counts the nodes that name one.

use std::collections::HashMap;

use crate::allocator::BlockAllocator;
use crate::memory::WordMemory;
use crate::object::SizeClass;
use crate::owner::OwnerError;
use crate::tree::image::NodeImage;
use crate::tree::separator::{INLINE_BYTES, LongSeparator, Separator, separator_hash};

#[derive(Debug)]
struct SharedBlock {
    separator: LongSeparator,
    class: SizeClass,
    uses: u64,
}

/// The long separators of a tree.
#[derive(Debug, Default)]
pub(super) struct LongSeparators {
    by_hash: HashMap<u64, SharedBlock>,
    /// Those that no node may name.
    unused: Vec<u64>,
}

impl LongSeparators {
    /// A separator of these bytes. A long one gets a block, or has one.
    pub(super) fn make<M: WordMemory>(
        &mut self,
        (memory, blocks): (&M, &mut BlockAllocator),
        salt: u64,
        bytes: &[u8],
    ) -> Result<Separator<'static>, OwnerError> {
        if bytes.len() <= INLINE_BYTES {
            return Ok(Separator::Short(bytes.to_vec().into()));
        }
        let hash = separator_hash(salt, bytes);
        if let Some(shared) = self.by_hash.get(&hash) {
            return Ok(Separator::Long(shared.separator));
        }
        let class = SizeClass::of(bytes.len() as u64).ok_or(OwnerError::KeyTooLong(bytes.len()))?;
        let at = blocks.allocate(class)?;
        memory.copy_in(at, bytes);
        let separator = Separator::long(salt, bytes, at);
        self.unused.push(hash);
        self.by_hash.insert(hash, SharedBlock { separator, class, uses: 0 });
        Ok(Separator::Long(separator))
    }

    /// The bytes of a separator; `None` for the one above all keys.
    pub(super) fn bytes_of<M: WordMemory>(
        &self,
        memory: &M,
        salt: u64,
        separator: &Separator<'_>,
    ) -> Result<Option<Vec<u8>>, OwnerError> {
        match separator {
            Separator::Infinite => Ok(None),
            Separator::Short(bytes) => Ok(Some(bytes.to_vec())),
            Separator::Long(long) => {
                let mut bytes = vec![0; long.len_bytes as usize];
                memory.copy_out(long.at, &mut bytes);
                let is_whole = separator_hash(salt, &bytes) == long.hash;
                if is_whole { Ok(Some(bytes)) } else { Err(OwnerError::Broken) }
            }
        }
    }

    /// Counts the separators of a node that is made.
    pub(super) fn retain(&mut self, image: &NodeImage) {
        for long in image.long_separators() {
            if let Some(shared) = self.by_hash.get_mut(&long.hash) {
                shared.uses += 1;
            }
        }
    }

    /// Takes those of a node off that is no more.
    pub(super) fn release(&mut self, image: &NodeImage) {
        for long in image.long_separators() {
            if let Some(shared) = self.by_hash.get_mut(&long.hash) {
                shared.uses = shared.uses.saturating_sub(1);
                if shared.uses == 0 {
                    self.unused.push(long.hash);
                }
            }
        }
    }

    /// Frees the blocks that no node names.
    pub(super) fn free_unused(&mut self, blocks: &mut BlockAllocator) {
        for hash in self.unused.drain(..) {
            if self.by_hash.get(&hash).is_some_and(|shared| shared.uses == 0)
                && let Some(shared) = self.by_hash.remove(&hash)
            {
                blocks.free(shared.separator.at, shared.class);
            }
        }
    }
}
