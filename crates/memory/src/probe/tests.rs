use super::*;
use crate::region::page_bytes;

/// Five pages with different rights; unmapped on drop.
struct Pages {
    start: usize,
}

const RIGHTS: [i32; 5] = [
    libc::PROT_READ | libc::PROT_WRITE,
    libc::PROT_READ,
    libc::PROT_NONE,
    libc::PROT_READ | libc::PROT_WRITE,
    libc::PROT_READ | libc::PROT_WRITE,
];

impl Pages {
    /// The fourth page is a hole.
    fn new() -> Pages {
        let page = page_bytes();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, changed before its address leaves this function.
        unsafe {
            let start = libc::mmap(core::ptr::null_mut(), 5 * page, 0, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            for (index, rights) in RIGHTS.into_iter().enumerate() {
                assert_eq!(libc::mprotect(start.byte_add(index * page), page, rights), 0);
            }
            assert_eq!(libc::munmap(start.byte_add(3 * page), page), 0);
            Pages { start: start.addr() }
        }
    }

    fn byte(&self, page: usize, offset: usize) -> usize {
        self.start + page * page_bytes() + offset
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let start = core::ptr::without_provenance_mut(self.start);
        // SAFETY: the part before the hole belongs to this value and has no other user.
        let result = unsafe { libc::munmap(start, 3 * page_bytes()) };
        assert_eq!(result, 0);
    }
}

/// A page, and an offset in it.
type Place = (usize, usize);

/// First byte, last byte, for writing; and the expected result. Another thread may map memory in the hole at
/// any time, so the text below tests holes instead.
const CASES: [(Place, Place, bool, Result<(), MrError>); 7] = [
    ((0, 0), (0, 4095), true, Ok(())),
    ((0, 7), (0, 7), true, Ok(())),
    ((0, 0), (1, 4095), false, Ok(())),
    ((0, 0), (1, 0), true, Err(MrError::Protected)),
    ((1, 5), (1, 6), true, Err(MrError::Protected)),
    ((1, 5), (2, 0), false, Err(MrError::Protected)),
    ((2, 0), (2, 0), false, Err(MrError::Protected)),
];

#[test]
fn rights_are_seen_page_by_page_both_ways() {
    let pages = Pages::new();
    let maps = File::open("/proc/self/maps").expect("/proc");
    for (first, last, write, expected) in CASES {
        let range = pages.byte(first.0, first.1)..pages.byte(last.0, last.1) + 1;
        assert_eq!(check(range.start, range.len(), write), expected);
        if let Some(answer) = by_query(&maps, &range, write, &mut |_| ()) {
            assert_eq!(answer, expected);
        }
        let text = File::open("/proc/self/maps").expect("/proc");
        let answer = by_text(BufReader::new(text), &range, write, &mut |_| ());
        assert_eq!(answer.expect("a list of mappings"), expected);
    }
}

#[test]
fn addresses_that_no_program_has_are_unmapped() {
    let last_page = usize::MAX - page_bytes() + 1;
    for start in [0, 1, page_bytes() - 1, last_page, usize::MAX / 2] {
        assert_eq!(check(start, 1, false), Err(MrError::Unmapped), "{start:x}");
        assert_eq!(by_msync(start..start + 1), Err(MrError::Unmapped));
    }
    assert_eq!(check(0, 0, true), Ok(()));
}

#[test]
fn msync_accepts_mapped_memory() {
    let bytes = vec![0u8; 3 * page_bytes()];
    let start = bytes.as_ptr().addr();
    assert_eq!(by_msync(start..start + bytes.len()), Ok(()));
}

const TEXT: &str = "\
1000-3000 rw-p 00000000 00:00 0
3000-4000 r--p 00000000 08:01 77   /usr/lib/a file.so
6000-7000 rw-s 00000000 00:01 5    /memfd:x (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
";

#[test]
fn a_list_of_mappings_is_walked() {
    for (range, write, expected) in [
        (0x1000..0x3000, true, Ok(())),
        (0x2fff..0x4000, false, Ok(())),
        (0x2fff..0x3001, true, Err(MrError::Protected)),
        (0x3000..0x4001, false, Err(MrError::Unmapped)),
        (0x0fff..0x1001, false, Err(MrError::Unmapped)),
        (0x4000..0x4001, false, Err(MrError::Unmapped)),
        (0x5fff..0x6001, false, Err(MrError::Unmapped)),
        (0x6000..0x7000, true, Ok(())),
        (0x8000..0x8001, false, Err(MrError::Unmapped)),
    ] {
        let answer = by_text(TEXT.as_bytes(), &range, write, &mut |_| ()).expect("well formed");
        assert_eq!(answer, expected, "{range:x?}");
    }
}

#[test]
fn a_list_that_is_none_is_an_error() {
    for text in [
        "hello\n",
        "1000 rw-p\n",
        "10g0-2000 rw-p\n",
        "1000-2000\n",
        "1000-2000 rw-p 0 0:0\n",
        "1000-2000 rw-p 0 0:0 x\n",
    ] {
        assert!(by_text(text.as_bytes(), &(0x1000..0x1001), false, &mut |_| ()).is_err());
    }
}

#[test]
fn mappings_are_described_alike_both_ways() {
    let pages = Pages::new();
    let page = page_bytes();
    let range = pages.start..pages.start + 3 * page;
    let (mut asked, mut text) = (Vec::new(), Vec::new());
    visit(&range, |mapping| asked.push(mapping.clone()));
    visit_all(|mapping, _| {
        if !overlap(&mapping.range, &range).is_empty() {
            text.push(mapping.clone());
        }
    });
    // Clipped, since the kernel may merge an adjacent mapping with the first page's between the two reads.
    let said = |found: &[MapsEntry]| -> Vec<_> {
        found
            .iter()
            .map(|m| (overlap(&m.range, &range), m.readable, m.writable, m.executable, m.shared, m.file))
            .collect()
    };
    assert_eq!(said(&asked), said(&text));
    let plain: Vec<bool> = asked.iter().map(MapsEntry::is_plain).collect();
    assert_eq!(plain, [true, false, false]);
    assert_eq!(survey(pages.start, page, true), Ok(Survey { plain: true }));
    assert_eq!(survey(pages.start, page - 1, true), Ok(Survey { plain: false }), "no whole page");
    assert_eq!(survey(pages.start, page + 5, false), Ok(Survey { plain: true }), "a part of a page counts for nothing");
    assert_eq!(survey(pages.start, 2 * page, false), Ok(Survey { plain: false }));
}

#[test]
fn lines_of_the_list_are_parsed() {
    let mut said = Vec::new();
    visit_lines(TEXT.as_bytes(), |mapping, name| {
        let name = String::from_utf8_lossy(name).into_owned();
        said.push((mapping.range.start, mapping.is_plain(), mapping.file, mapping.rights(), name));
    });
    let (file, memfd) = (InodeId::new(8, 1, 77), InodeId::new(0, 1, 5));
    let (r, w, x) = (libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC);
    let expected = [
        (0x1000, true, InodeId::default(), r | w, ""),
        (0x3000, false, file, r, "/usr/lib/a file.so"),
        (0x6000, false, memfd, r | w, "/memfd:x (deleted)"),
        (0xffff_ffff_ff60_0000, false, InodeId::default(), x, "[vsyscall]"),
    ];
    assert_eq!(said, expected.map(|(start, plain, file, rights, name)| (start, plain, file, rights, name.to_owned())));
}

/// A reader that returns a few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(self.0.len()).min(out.len());
        let (now, later) = self.0.split_at(count);
        out[..count].copy_from_slice(now);
        self.0 = later;
        Ok(count)
    }
}

#[test]
fn lines_arrive_in_any_pieces_and_may_be_too_long() {
    let long =
        format!("{TEXT}8000-9000 rw-p 00000000 00:00 0 /{}\n9000-a000 rw-p 00000000 00:00 0\n", "x".repeat(9000));
    for step in [1, 7, 100, LINE_BYTES, usize::MAX] {
        let mut starts = Vec::new();
        visit_lines(Trickle(long.as_bytes(), step), |mapping, _| starts.push(mapping.range.start));
        starts.retain(|start| *start != 0x8000);
        assert_eq!(starts, [0x1000, 0x3000, 0x6000, 0xffff_ffff_ff60_0000, 0x9000], "{step} bytes at a time");
    }
}

#[test]
fn ranges_round_to_whole_pages_and_overlap() {
    let page = page_bytes();
    for (range, whole) in [
        (page..3 * page, page..3 * page),
        (page + 1..3 * page - 1, 2 * page..2 * page),
        (1..3 * page + 1, page..3 * page),
        (1..2, page..page),
        (usize::MAX - 1..usize::MAX, usize::MAX..usize::MAX),
    ] {
        assert_eq!(whole_pages(range), whole);
    }
    for (one, other, both) in [(0..5, 3..9, 3..5), (0..5, 5..9, 5..5), (0..9, 3..4, 3..4), (7..9, 0..2, 7..7)] {
        assert_eq!(overlap(&one, &other), both);
    }
}
