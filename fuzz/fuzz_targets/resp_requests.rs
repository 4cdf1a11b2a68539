//! Bytes of a Redis client: requests are the same in whichever pieces they arrive, and come back when they are sent again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (piece, is_stranger, stream) = input;
    let whole = resp::decode_stream(stream, stream.len(), is_stranger);
    assert_eq!(resp::decode_stream(stream, usize::from(piece), is_stranger), whole);
    let mut again = Vec::new();
    for request in &whole.0 {
        again.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
        for argument in request {
            again.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            again.extend_from_slice(argument);
            again.extend_from_slice(b"\r\n");
        }
    }
    // A line of words may have more of them than a stranger's array.
    assert_eq!(resp::decode_stream(&again, 1 + again.len() / 3, false), (whole.0.clone(), None));
    if let [pattern, name, ..] = whole.0.concat().as_slice() {
        resp::glob_matches(pattern, name);
    }
});
