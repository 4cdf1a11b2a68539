//! Numbers that cannot be guessed without the secret: the key stream of ChaCha20 (RFC 8439).

use std::io;

/// "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// An endless stream made from a secret.
pub(crate) struct SecretStream {
    input: [u32; 16],
    block: [u32; 16],
    used: usize,
}

impl SecretStream {
    /// The stream of a secret of 256 bits.
    pub(crate) fn new(secret: [u32; 8]) -> SecretStream {
        let mut input = [0; 16];
        input[..4].copy_from_slice(&CONSTANTS);
        input[4..12].copy_from_slice(&secret);
        SecretStream { input, block: [0; 16], used: 16 }
    }

    /// A secret from the kernel.
    pub(crate) fn entropy() -> io::Result<[u32; 8]> {
        let mut secret = [0u32; 8];
        let bytes = size_of_val(&secret);
        // SAFETY: the kernel fills at most as many bytes as the array has.
        let filled = unsafe { libc::getrandom(secret.as_mut_ptr().cast(), bytes, 0) };
        match usize::try_from(filled) {
            Ok(filled) if filled == bytes => Ok(secret),
            Ok(_) => Err(io::ErrorKind::Interrupted.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// The next 32 bits.
    pub(crate) fn next_u32(&mut self) -> u32 {
        if self.used == self.block.len() {
            self.block = block(&self.input);
            self.used = 0;
            // A counter of 64 bits, as in the cipher's first publication.
            let (low, carry) = self.input[12].overflowing_add(1);
            self.input[12] = low;
            self.input[13] = self.input[13].wrapping_add(u32::from(carry));
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    /// The next 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) | u64::from(self.next_u32()) << 32
    }
}

fn block(input: &[u32; 16]) -> [u32; 16] {
    let mut state = *input;
    for _ in 0..10 {
        for column in 0..4 {
            quarter_round(&mut state, [column, column + 4, column + 8, column + 12]);
        }
        for diagonal in 0..4 {
            let at = |row: usize| row * 4 + (diagonal + row) % 4;
            quarter_round(&mut state, [at(0), at(1), at(2), at(3)]);
        }
    }
    for (word, start) in state.iter_mut().zip(input) {
        *word = word.wrapping_add(*start);
    }
    state
}

fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (x, y, z, left) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[x] = state[x].wrapping_add(state[y]);
        state[z] = (state[z] ^ state[x]).rotate_left(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_as_in_rfc_8439() {
        // Section 2.3.2: key 00 01 .. 1f, counter 1, nonce 00000009 0000004a 00000000.
        let key = core::array::from_fn(|i| {
            let first = 4 * i as u8;
            u32::from_le_bytes([first, first + 1, first + 2, first + 3])
        });
        let mut stream = SecretStream::new(key);
        stream.input[12..].copy_from_slice(&[1, 0x0900_0000, 0x4a00_0000, 0]);
        let first: [u32; 16] = core::array::from_fn(|_| stream.next_u32());
        assert_eq!(
            first,
            [
                0xe4e7f110, 0x15593bd1, 0x1fdd0f50, 0xc47120a3, 0xc7f4d1c7, 0x0368c033, 0x9aaa2204, 0x4e6cd4c3,
                0x466482d2, 0x09aa9f07, 0x05d7c214, 0xa2028bd9, 0xd19c12b5, 0xb94e16de, 0xe883d0cb, 0x4e3c50a2,
            ]
        );
    }

    #[test]
    fn blocks_follow_each_other_and_differ() {
        let mut stream = SecretStream::new([7; 8]);
        let mut seen: Vec<u64> = (0..4096).map(|_| stream.next_u64()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4096);
    }
}
