//! The exchange against peers that do as they please. Nothing here needs a device: queue pairs
//! come in with the integration tests.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use transport::{Mtu, QpType};
use wire::{Psn, Qpn};

use super::frame::{Frame, Greeting, HEADER_BYTES, Header, MAX_BLOB_BYTES, check_blob};
use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn greeting(blob: &[u8]) -> Greeting {
    let info = ConnectionInfo {
        service: QpType::Rc,
        qpn: Qpn::new(0x11),
        gid: IpAddr::from([192, 0, 2, 1]).into(),
        first_psn: Psn::new(1),
        mtu: Mtu::B1024,
        read_depth: 4,
    };
    Greeting { info, blob: blob.to_vec() }
}

fn decode(bytes: &[u8]) -> Result<Frame, String> {
    let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or("short")?;
    let header = Header::decode(header)?;
    Frame::decode(header, body).map_err(|error| error.to_string())
}

#[test]
fn frames_and_back() {
    let frames = [
        Frame::Offer(greeting(b"")),
        Frame::Answer(greeting(&[7; MAX_BLOB_BYTES])),
        Frame::Ready,
        Frame::Refuse("no".into()),
    ];
    for frame in frames {
        assert_eq!(decode(&frame.encode()), Ok(frame));
    }
}

#[test]
fn headers_are_checked_before_anything_is_read() {
    let header = |change: &dyn Fn(&mut [u8; HEADER_BYTES])| {
        let mut bytes = *Frame::Ready.encode().first_chunk().unwrap();
        change(&mut bytes);
        Header::decode(&bytes)
    };
    assert!(header(&|_| {}).is_ok());
    assert!(header(&|b| b[0] = b'G').unwrap_err().contains("begin"));
    assert!(header(&|b| b[4] = 2).unwrap_err().contains("version"));
    assert!(header(&|b| b[5] = 9).unwrap_err().contains("kind"));
    assert!(header(&|b| b[11] = 1).unwrap_err().contains("length"));
    let offer = |length: u32| {
        header(&|b| {
            b[5] = 1;
            b[8..].copy_from_slice(&length.to_be_bytes());
        })
    };
    assert!(offer(28).is_ok() && offer(28 + MAX_BLOB_BYTES as u32).is_ok());
    for length in [0, 27, 29 + MAX_BLOB_BYTES as u32, u32::MAX] {
        assert!(offer(length).is_err(), "{length}");
    }
}

#[test]
fn words_of_a_peer_cannot_play_with_the_terminal() {
    let refusal = Frame::Refuse("\x1b[2Jgone\n".into()).encode();
    assert_eq!(decode(&refusal), Ok(Frame::Refuse(" [2Jgone ".into())));
    let long = Frame::refusal(&"ä".repeat(1000));
    assert!(matches!(&long, Frame::Refuse(text) if text.len() == 1024));
    assert_eq!(decode(&long.encode()), Ok(long));
}

#[test]
fn blobs_are_bounded() {
    assert!(check_blob(&[0; MAX_BLOB_BYTES]).is_ok());
    assert!(matches!(check_blob(&[0; MAX_BLOB_BYTES + 1]), Err(ConnectError::BlobTooLong { .. })));
}

/// What `Listener::next` makes of a peer that writes these bytes and hangs up.
fn hear(bytes: &[u8]) -> Result<Incoming, ConnectError> {
    let listener = listen("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    listener.next(PATIENCE)
}

#[test]
fn strangers_are_told_apart() {
    assert!(matches!(hear(b"GET / HTTP/1.1\r\n\r\n"), Err(ConnectError::Protocol(..))));
    assert!(matches!(hear(b"LARM"), Err(ConnectError::Exchange(..))));
    assert!(matches!(hear(&Frame::Ready.encode()), Err(ConnectError::Protocol(..))));
    let mut bad_info = Frame::Offer(greeting(b"")).encode();
    bad_info[HEADER_BYTES] = 99;
    assert!(matches!(hear(&bad_info), Err(ConnectError::Malformed(_))));
}

#[test]
fn an_offer_arrives_with_its_bytes_and_can_be_refused() {
    let listener = listen("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.write_all(&Frame::Offer(greeting(b"hi")).encode()).unwrap();
    let incoming = listener.next(PATIENCE).unwrap();
    assert_eq!(incoming.blob(), b"hi");
    assert_eq!(incoming.peer().qpn(), Qpn::new(0x11));
    incoming.refuse("not today");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(decode(&answer), Ok(Frame::Refuse("not today".into())));
}

#[test]
fn a_peer_that_says_nothing_is_given_up() {
    let listener = listen("127.0.0.1:0").unwrap();
    let _silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let result = listener.next(Duration::from_millis(50));
    assert!(matches!(result, Err(ConnectError::TimedOut { .. })), "{result:?}");
}

#[test]
fn nobody_comes() {
    let listener = listen("127.0.0.1:0").unwrap();
    let result = listener.next(Duration::from_millis(20));
    assert!(matches!(result, Err(ConnectError::TimedOut { .. })), "{result:?}");
}

#[test]
fn a_listener_that_starts_late_is_waited_for() {
    let probe = listen("127.0.0.1:0").unwrap();
    let address = probe.local_addr().unwrap();
    drop(probe);
    let reached = thread::spawn(move || reach(&address, &Deadline::after(PATIENCE)));
    thread::sleep(Duration::from_millis(60));
    let _listener = listen(address).unwrap();
    assert_eq!(reached.join().unwrap().unwrap().peer_addr().unwrap(), address);
}

#[test]
fn a_listener_that_never_comes_is_given_up() {
    let address = listen("127.0.0.1:0").unwrap().local_addr().unwrap();
    let result = reach(&address, &Deadline::after(Duration::from_millis(60)));
    assert!(matches!(result, Err(ConnectError::TimedOut { .. })), "{result:?}");
}
