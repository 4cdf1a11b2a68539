//! Control messages (`struct cmsghdr`) as bytes, written and read by safe code.
//!
//! Each message is `len:8 level:4 type:4 data… padding to 8`, all in the machine's order;
//! `len` counts the header and the data but not the padding.

/// Size of `struct cmsghdr`; the data follow it directly.
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
const ALIGN_BYTES: usize = size_of::<usize>();
const LEN_BYTES: usize = size_of::<usize>();

const fn padded(len_bytes: usize) -> usize {
    len_bytes.next_multiple_of(ALIGN_BYTES)
}

/// The space of one control message with this many data bytes.
pub(crate) const fn space(data_bytes: usize) -> usize {
    padded(HEADER_BYTES + data_bytes)
}

/// A control buffer of `N` bytes, for sending or receiving.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct ControlBuffer<const N: usize> {
    bytes: [u8; N],
    len_bytes: usize,
}

impl<const N: usize> ControlBuffer<N> {
    /// No control messages.
    pub(crate) const EMPTY: ControlBuffer<N> = ControlBuffer { bytes: [0; N], len_bytes: 0 };

    /// Adds one message.
    ///
    /// # Panics
    /// If there is no room: the space that a buffer needs is known when it is declared.
    pub(crate) fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let end = self.len_bytes + space(data.len());
        assert!(end <= N, "control buffer of {N} bytes is too small");
        let message = &mut self.bytes[self.len_bytes..end];
        let len = HEADER_BYTES + data.len();
        message[..LEN_BYTES].copy_from_slice(&len.to_ne_bytes());
        message[LEN_BYTES..LEN_BYTES + 4].copy_from_slice(&level.to_ne_bytes());
        message[LEN_BYTES + 4..HEADER_BYTES].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER_BYTES..len].copy_from_slice(data);
        self.len_bytes = end;
    }

    /// The bytes in use.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len_bytes]
    }

    /// The whole buffer, for the kernel to write to.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Records the number of bytes that the kernel wrote.
    pub(crate) fn set_len(&mut self, len_bytes: usize) {
        self.len_bytes = len_bytes.min(N);
    }

    /// The messages in the buffer.
    pub(crate) fn iter(&self) -> ControlMessages<'_> {
        ControlMessages { rest: self.as_bytes() }
    }
}

/// One control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlMessage<'a> {
    pub(crate) level: i32,
    pub(crate) kind: i32,
    pub(crate) data: &'a [u8],
}

impl ControlMessage<'_> {
    /// The data as one integer in the machine's order: a byte or four.
    pub(crate) fn integer(&self) -> Option<i32> {
        match self.data {
            [byte] => Some(i32::from(*byte)),
            data => Some(i32::from_ne_bytes(data.get(..4)?.try_into().ok()?)),
        }
    }
}

/// Iterator over control messages; ends at the first one that is not whole.
#[derive(Clone)]
pub(crate) struct ControlMessages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for ControlMessages<'a> {
    type Item = ControlMessage<'a>;

    fn next(&mut self) -> Option<ControlMessage<'a>> {
        let (len, rest) = self.rest.split_first_chunk::<LEN_BYTES>()?;
        let (level, rest) = rest.split_first_chunk::<4>()?;
        let (kind, rest) = rest.split_first_chunk::<4>()?;
        let data_bytes = usize::from_ne_bytes(*len).checked_sub(HEADER_BYTES)?;
        let data = rest.get(..data_bytes)?;
        self.rest = self.rest.get(space(data_bytes)..).unwrap_or_default();
        let (level, kind) = (i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind));
        Some(ControlMessage { level, kind, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_written() {
        let mut control = ControlBuffer::<96>::EMPTY;
        control.push(1, 2, &[7]);
        control.push(3, 4, &0x0102_0304i32.to_ne_bytes());
        control.push(5, 6, &[9; 12]);
        let got: Vec<_> = control.iter().map(|m| (m.level, m.kind, m.data.to_vec())).collect();
        let number = 0x0102_0304i32.to_ne_bytes().to_vec();
        assert_eq!(got, [(1, 2, vec![7]), (3, 4, number), (5, 6, vec![9; 12])]);
        let integers: Vec<_> = control.iter().map(|m| m.integer()).collect();
        assert_eq!(integers[..2], [Some(7), Some(0x0102_0304)]);
        assert_eq!(control.as_bytes().len(), space(1) + space(4) + space(12));
    }

    #[test]
    fn the_layout_is_the_kernel_s() {
        // SAFETY: plain arithmetic on the given lengths.
        let (spaces, len) = unsafe { ([libc::CMSG_SPACE(1), libc::CMSG_SPACE(12)], libc::CMSG_LEN(0)) };
        assert_eq!(spaces, [space(1) as u32, space(12) as u32]);
        assert_eq!(len as usize, HEADER_BYTES);
    }

    #[test]
    fn broken_buffers_end_the_iteration() {
        for fill in [0u8, 1, 15, 0x7f, 0xff] {
            for len in 0..64 {
                let mut control = ControlBuffer::<64> { bytes: [fill; 64], len_bytes: 0 };
                control.set_len(len);
                assert!(control.iter().count() <= 4);
            }
        }
    }

    #[test]
    #[should_panic(expected = "too small")]
    fn a_full_buffer_is_a_defect() {
        let mut control = ControlBuffer::<16>::EMPTY;
        control.push(0, 0, &[1]);
    }
}
