use super::*;

/// A buffer with room around the span under test.
#[repr(align(64))]
struct Buffer([u8; 256]);

impl Buffer {
    fn new(fill: u8) -> Buffer {
        Buffer([fill; 256])
    }

    fn span(&mut self, offset: usize, len_bytes: usize) -> Span<'_> {
        assert!(offset + len_bytes <= 256);
        // SAFETY: inside the buffer, which the span keeps borrowed.
        unsafe { Span::new(self.0.as_mut_ptr().add(offset), len_bytes) }
    }
}

#[test]
fn writes_put_every_byte_in_place_and_no_other() {
    for offset in 0..24 {
        for len in 0..100 {
            let data: Vec<u8> = (1..=len as u8).collect();
            let mut buffer = Buffer::new(0xee);
            buffer.span(offset, len).write(&data);
            let mut expected = [0xee; 256];
            expected[offset..offset + len].copy_from_slice(&data);
            assert_eq!(buffer.0, expected, "offset {offset}, length {len}");
        }
    }
}

#[test]
fn reads_take_every_byte() {
    let mut buffer = Buffer::new(0);
    buffer.0 = std::array::from_fn(|i| i as u8);
    for offset in 0..24 {
        for len in 0..100 {
            let mut out = vec![0; len];
            buffer.span(offset, len).read(&mut out);
            assert!(out.iter().copied().eq((offset..offset + len).map(|i| i as u8)));
        }
    }
}

#[test]
fn the_tail_is_within_the_last_aligned_word() {
    let mut buffer = Buffer::new(0);
    for offset in 0..16 {
        for len in 1..64 {
            let tail = offset + buffer.span(offset, len).tail_offset();
            let end = offset + len;
            assert_eq!(tail / WORD, (end - 1) / WORD, "tail in one word");
            assert!(tail == offset || tail.is_multiple_of(WORD), "tail as long as possible");
        }
    }
    assert_eq!(buffer.span(3, 0).tail_offset(), 0);
}

#[test]
#[should_panic(expected = "written whole")]
fn a_write_of_another_length_is_refused() {
    Buffer::new(0).span(0, 9).write(&[0; 8]);
}

#[test]
#[should_panic(expected = "read whole")]
fn a_read_of_another_length_is_refused() {
    Buffer::new(0).span(0, 8).read(&mut [0; 9]);
}

#[test]
fn parts_lie_inside() {
    let mut buffer = Buffer::new(0);
    let span = buffer.span(8, 16);
    for (offset, len, inside) in [
        (0, 16, true),
        (16, 0, true),
        (4, 12, true),
        (4, 13, false),
        (17, 0, false),
        (0, usize::MAX, false),
        (usize::MAX, 1, false),
        (usize::MAX, usize::MAX, false),
    ] {
        assert_eq!(span.part(offset, len).is_some(), inside, "{offset} {len}");
    }
    span.part(4, 4).expect("inside").write(&[1, 2, 3, 4]);
    assert_eq!(buffer.0[12..16], [1, 2, 3, 4]);
}

#[test]
fn atomics_return_what_was_there() {
    let mut buffer = Buffer::new(0);
    let word = buffer.span(16, 8);
    let swap = |compare, swap| AtomicOp::CompareSwap { compare, swap };
    assert_eq!(word.atomic(AtomicOp::FetchAdd { add: 5 }), Some(0));
    assert_eq!(word.atomic(AtomicOp::FetchAdd { add: u64::MAX }), Some(5));
    assert_eq!(word.atomic(swap(3, 9)), Some(4));
    assert_eq!(word.atomic(swap(4, 9)), Some(4));
    assert_eq!(word.atomic(swap(9, 9)), Some(9));
}

#[test]
fn atomics_need_an_aligned_word() {
    let mut buffer = Buffer::new(0);
    let add = AtomicOp::FetchAdd { add: 1 };
    for offset in 1..8 {
        assert_eq!(buffer.span(offset, 8).atomic(add), None);
    }
    assert_eq!(buffer.span(0, 7).atomic(add), None);
    assert_eq!(buffer.span(0, 16).atomic(add), None);
    assert_eq!(buffer.0, [0; 256]);
}

#[test]
fn copies_between_spans_put_every_byte_in_place_and_no_other() {
    let mut source = Buffer::new(0);
    source.0 = std::array::from_fn(|i| i as u8);
    for (from, to) in (0..16).flat_map(|from| (0..16).map(move |to| (from, to))) {
        for len in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 64, 100] {
            let mut buffer = Buffer::new(0xee);
            buffer.span(to, len).copy_from(source.span(from, len));
            let mut expected = [0xee; 256];
            expected[to..to + len].copy_from_slice(&source.0[from..from + len]);
            assert_eq!(buffer.0, expected, "from {from} to {to}, length {len}");
        }
    }
}

#[test]
fn spans_that_overlap_are_copied_as_they_were() {
    for (from, to) in [(0, 3), (3, 0), (8, 16), (16, 8), (5, 5), (0, 60), (60, 1)] {
        for len in [1, 8, 9, 64, 100] {
            let mut buffer = Buffer::new(0);
            buffer.0 = std::array::from_fn(|i| i as u8);
            let mut expected = buffer.0;
            expected.copy_within(from..from + len, to);
            let source = buffer.span(from, len);
            // SAFETY: inside the buffer, which is accessed only by raw copies here.
            let source = unsafe { Span::new(source.ptr(), len) };
            buffer.span(to, len).copy_from(source);
            assert_eq!(buffer.0, expected, "from {from} to {to}, length {len}");
        }
    }
}

#[test]
#[should_panic(expected = "written whole")]
fn a_copy_of_another_length_is_refused() {
    let mut other = Buffer::new(0);
    Buffer::new(0).span(0, 9).copy_from(other.span(0, 8));
}
