use super::*;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn the_reader_sees_the_counts() {
    let page = CounterPage::create(&["sent", "received", "größe"]).unwrap();
    assert_eq!(page.len(), 3);
    page.cell(0).fetch_add(7, Relaxed);
    page.cell(2).store(u64::MAX, Relaxed);
    let copy = page.file().unwrap().try_clone_to_owned().unwrap();
    let snapshot = Snapshot::read(copy.as_fd()).unwrap();
    let pairs: Vec<_> = snapshot.iter().collect();
    assert_eq!(pairs, [("sent", 7), ("received", 0), ("größe", u64::MAX)]);
    assert_eq!(snapshot.get("nothing"), None);
}

#[test]
fn a_page_may_have_no_counters() {
    let page = CounterPage::create(&[]).unwrap();
    assert!(page.is_empty());
    assert_eq!(page.snapshot().unwrap(), Snapshot::default());
}

#[test]
fn the_first_cell_is_on_its_own_cache_line() {
    let page = CounterPage::create(&["a"]).unwrap();
    assert_eq!(std::ptr::from_ref(page.cell(0)).addr() % CELL_ALIGN, 0);
}

#[test]
#[should_panic(expected = "cell 2 of 2")]
fn cells_past_the_end_are_refused() {
    CounterPage::create(&["a", "b"]).unwrap().cell(2);
}

#[test]
fn bad_names_are_refused() {
    for name in ["", "two\nlines", "\u{7}"] {
        assert!(matches!(CounterPage::create(&[name]), Err(PageError::Name { .. })), "{name:?}");
    }
    let long = "x".repeat(MAX_PAGE_BYTES);
    assert!(matches!(CounterPage::create(&[&long]), Err(PageError::TooLarge { .. })));
    let many = vec!["abcdefgh"; MAX_PAGE_BYTES / 16];
    assert!(matches!(CounterPage::create(&many), Err(PageError::TooLarge { .. })));
}

#[test]
fn the_size_cannot_be_changed() {
    let page = CounterPage::create(&["a"]).unwrap();
    assert!(rustix::fs::ftruncate(page.file().unwrap(), 0).is_err());
    assert!(rustix::fs::ftruncate(page.file().unwrap(), 1 << 20).is_err());
}

#[test]
fn other_files_are_not_read() {
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(matches!(Snapshot::read(file.as_fd()), Err(PageError::Malformed { .. })));
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(matches!(Snapshot::read(reader.as_fd()), Err(PageError::Malformed { .. })));
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let unsealed = rustix::fs::memfd_create("unsealed", flags).unwrap();
    rustix::fs::ftruncate(&unsealed, 4096).unwrap();
    assert!(matches!(Snapshot::read(unsealed.as_fd()), Err(PageError::Malformed { .. })));
    rustix::fs::ftruncate(&unsealed, 1 << 40).unwrap();
    rustix::fs::fcntl_add_seals(&unsealed, SealFlags::SHRINK).unwrap();
    assert!(matches!(Snapshot::read(unsealed.as_fd()), Err(PageError::TooLarge { .. })));
}

/// A sound page with three counters, as bytes.
fn sound_page() -> Vec<u8> {
    let page = CounterPage::create(&["one", "two", "three"]).unwrap();
    copy_of_page(page.file().unwrap()).unwrap()
}

#[test]
fn truncated_pages_are_refused() {
    let page = sound_page();
    assert!(Snapshot::decode(&page).is_ok());
    for len in 0..page.len() {
        assert!(Snapshot::decode(&page[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn no_header_makes_the_reader_leave_the_page() {
    let sound = sound_page();
    for at in 0..HEADER_BYTES + 14 {
        for value in [0, 1, 0x0a, 0x7f, 0x80, 0xff] {
            let mut page = sound.clone();
            page[at] = value;
            if let Ok(snapshot) = Snapshot::decode(&page) {
                assert!(snapshot.iter().count() * CELL_BYTES < page.len());
            }
        }
    }
    let mut page = sound.clone();
    page[12..16].fill(0xff);
    assert!(Snapshot::decode(&page).is_err());
}

#[test]
fn control_characters_do_not_reach_a_terminal() {
    let mut page = sound_page();
    page[HEADER_BYTES] = 0x1b;
    let snapshot = Snapshot::decode(&page).unwrap();
    assert_eq!(snapshot.get("?ne"), Some(0));
}
