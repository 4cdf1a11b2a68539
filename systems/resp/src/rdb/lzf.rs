//! LZF, the compression of long strings: runs of literal bytes, and copies of bytes before (liblzf 3.6, `lzf_d.c`).

/// The bytes of a compressed string, which has exactly `len_bytes` of them. `None` if the input does not say so. Memory
/// grows with the bytes that come out.
pub(super) fn decompress(input: &[u8], len_bytes: usize) -> Option<Vec<u8>> {
    let (mut out, mut input) = (Vec::new(), input.iter());
    while let Some(&control) = input.next() {
        let control = usize::from(control);
        if control < 32 {
            let literal = input.as_slice().get(..=control)?;
            out.extend_from_slice(literal);
            input = input.as_slice()[control + 1..].iter();
        } else {
            let mut len = (control >> 5) + 2;
            if len == 9 {
                len += usize::from(*input.next()?);
            }
            let back = (((control & 31) << 8) | usize::from(*input.next()?)) + 1;
            let from = out.len().checked_sub(back)?;
            // The copy may overlap with itself, so it goes byte by byte.
            for at in from..from + len {
                out.push(out[at]);
            }
        }
        if out.len() > len_bytes {
            return None;
        }
    }
    (out.len() == len_bytes).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_copies_make_the_bytes_again() {
        // Three literals; a copy of six from three back, which overlaps itself; a long copy.
        let input = [2, b'a', b'b', b'c', 0b100_00000, 2, 0b111_00000, 1, 0];
        let whole = [b"abcabcabc".as_slice(), &[b'c'; 10]].concat();
        assert_eq!(decompress(&input, 19).as_deref(), Some(whole.as_slice()));
        assert_eq!((decompress(&input, 18), decompress(&input, 20)), (None, None));
        assert_eq!(decompress(b"", 0), Some(Vec::new()));
    }

    #[test]
    fn input_that_leads_nowhere_is_refused() {
        for wrong in
            [&[0][..], &[5, 1, 2], &[0b100_00000], &[0, b'a', 0b100_00000, 1], &[0, b'a', 0b111_00000], &[32, 0]]
        {
            for len in 0..300 {
                assert_eq!(decompress(wrong, len), None, "{wrong:?}");
            }
        }
    }
}
