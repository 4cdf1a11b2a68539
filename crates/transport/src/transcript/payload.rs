//! The bytes of a message, read from memory as packets are made.

/// Bytes of a message that lie in memory.
pub struct PayloadSource<'a> {
    /// Their number.
    pub len_bytes: u32,
    /// Copies bytes from an offset on into the buffer, as many as it holds. False: the memory is gone.
    pub read: &'a mut dyn FnMut(u32, &mut [u8]) -> bool,
}

impl core::fmt::Debug for PayloadSource<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PayloadSource").field("len_bytes", &self.len_bytes).finish_non_exhaustive()
    }
}
