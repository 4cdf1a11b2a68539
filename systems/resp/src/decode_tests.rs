use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};

use super::*;

/// All requests of a stream that arrives in pieces.
fn decode(stream: &[u8], piece: usize, limits: RequestLimits) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
    let (mut decoder, mut requests, mut start) = (RequestDecoder::default(), Vec::new(), 0);
    let ends = (0..stream.len()).step_by(piece).map(|from| (from + piece).min(stream.len()));
    for end in ends {
        while let Some(len) = decoder.decode(&stream[start..end], limits)? {
            requests.push(decoder.arguments(&stream[start..start + len]).map(<[u8]>::to_vec).collect());
            decoder.clear();
            start += len;
        }
    }
    Ok(requests)
}

fn refusal(stream: &[u8]) -> String {
    decode(stream, 1, RequestLimits::FULL).unwrap_err().to_string()
}

#[test]
fn requests_of_a_crate_for_clients_come_back_in_any_pieces() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let (mut stream, mut wanted) = (Vec::new(), Vec::new());
        for _ in 0..random.usize(1..6) {
            let request: Vec<Vec<u8>> =
                (0..random.usize(1..9)).map(|_| (0..random.usize(..40)).map(|_| random.u8(..)).collect()).collect();
            let frame = OwnedFrame::Array(request.iter().cloned().map(OwnedFrame::BulkString).collect());
            extend(&mut stream, &frame);
            wanted.push(request);
        }
        for piece in [1, 2, 7, stream.len()] {
            assert_eq!(decode(&stream, piece, RequestLimits::FULL).unwrap(), wanted);
        }
    }
}

fn extend(out: &mut Vec<u8>, frame: &OwnedFrame) {
    let mut bytes = vec![0; frame.encode_len(false)];
    redis_protocol::resp2::encode::encode(&mut bytes, frame, false).unwrap();
    out.extend_from_slice(&bytes);
}

#[test]
fn lines_of_words_and_empty_requests_are_requests() {
    let stream = b"PING\r\n*0\r\nset k 'a b'\n\r\n*-1\r\n*1\r\n$4\r\nPING\r\n";
    let requests = decode(stream, 3, RequestLimits::FULL).unwrap();
    let text: Vec<Vec<&str>> = requests
        .iter()
        .map(|request| request.iter().map(|word| std::str::from_utf8(word).unwrap()).collect())
        .collect();
    assert_eq!(text, [vec!["PING"], vec![], vec!["set", "k", "a b"], vec![], vec![], vec!["PING"]]);
}

#[test]
fn hostile_bytes_are_refused_in_the_words_of_redis() {
    let long = vec![b'1'; LONGEST_LINE + 2];
    let cases: [(&[u8], &str); 12] = [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*3000000000\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n*1\r\n", "expected '$', got '*'"),
        (b"get 'a\r\n", "unbalanced quotes in request"),
        (&[b"*", &long[..]].concat(), "too big mbulk count string"),
        (&[b"*1\r\n$", &long[..]].concat(), "too big bulk count string"),
        (&long, "too big inline request"),
    ];
    for (stream, words) in cases {
        assert_eq!(
            refusal(stream),
            format!("Protocol error: {words}"),
            "{:?}",
            String::from_utf8_lossy(&stream[..20.min(stream.len())])
        );
    }
    let stranger = |stream| decode(stream, 1, RequestLimits::STRANGER).unwrap_err().to_string();
    assert_eq!(stranger(b"*11\r\n"), "Protocol error: unauthenticated multibulk length");
    assert_eq!(stranger(b"*1\r\n$16385\r\n"), "Protocol error: unauthenticated bulk length");
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let mut decoder = RequestDecoder::default();
    let stream = b"*2000000000\r\n$536870912\r\nabc";
    assert_eq!(decoder.decode(stream, RequestLimits::FULL).unwrap(), None);
    assert!(decoder.arguments.capacity() < 100);
}
