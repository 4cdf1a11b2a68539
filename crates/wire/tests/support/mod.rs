//! Reading the golden captures.

/// Splits a little-endian pcap file (either time resolution) into its frames.
///
/// # Panics
/// If the bytes are not such a file, or end within a frame.
pub(crate) fn frames(pcap: &[u8]) -> Vec<&[u8]> {
    const HEADER_LEN: usize = 24;
    const RECORD_HEADER_LEN: usize = 16;
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert!([0xa1b2_c3d4, 0xa1b2_3c4d].contains(&word(pcap, 0)), "not a little-endian pcap file");
    let mut frames = Vec::new();
    let mut rest = &pcap[HEADER_LEN..];
    while !rest.is_empty() {
        let (header, after) = rest.split_at(RECORD_HEADER_LEN);
        let (frame, next) = after.split_at(word(header, 8) as usize);
        assert_eq!(frame.len(), word(header, 12) as usize, "cut by the capture");
        frames.push(frame);
        rest = next;
    }
    frames
}

/// The golden captures by name, sorted.
///
/// # Panics
/// If they cannot be read.
pub(crate) fn golden_captures() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let mut captures: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("the folder of golden captures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pcap"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy();
            (name.into_owned(), std::fs::read(&path).expect("a readable capture"))
        })
        .collect();
    captures.sort();
    captures
}
