use super::long::{MAX_FILE_BYTES, file};
use super::*;
use rustix::fs::{MemfdFlags, SealFlags};

fn requests() -> Vec<HubRequest> {
    vec![
        HubRequest::Hello { version: VERSION, pid: 7, program: "ping \"pong\"\n".into() },
        HubRequest::Attach { slot: None, counters: true, shm: true },
        HubRequest::Attach { slot: Some(255), counters: false, shm: false },
        HubRequest::Reattach { slots: vec![1, 2, 3], counters: true, shm: false },
        HubRequest::Introduce { slot: 255 },
        HubRequest::MoreSlots { count: 3 },
        HubRequest::Release { slot: 9 },
        HubRequest::Manage { number: None },
        HubRequest::Manage { number: Some(4095) },
        bind("192.0.2.1:0"),
        bind("[::]:65535"),
        bind("[fe80::1%4294967295]:7"),
        HubRequest::Listen { token: u64::MAX },
        HubRequest::Unbind { token: 0 },
        HubRequest::Status,
        HubRequest::Devices,
        HubRequest::Ping,
        HubRequest::KeepUp { idle_timeout_ms: None },
        HubRequest::KeepUp { idle_timeout_ms: Some(u64::MAX) },
        HubRequest::Shutdown { force: true },
    ]
}

fn bind(address: &str) -> HubRequest {
    let spec = BindSpec { space: 0x106, address: address.parse().unwrap(), reuse: true, afonly: false };
    HubRequest::Bind { token: 1, spec, listening: false, again: true }
}

fn replies() -> Vec<Reply> {
    vec![
        Reply::Welcome { version: VERSION, pid: 1 },
        Reply::Attached { slots: vec![1], devices: vec![] },
        Reply::Slots { slots: vec![] },
        Reply::Managing { number: 1, devices: vec![] },
        Reply::Bound { token: 3, port: 7174 },
        Reply::NotBound { token: 3, refusal: BindRefusal::InUse },
        Reply::Status(Box::default()),
        Reply::Devices { devices: vec![] },
        Reply::Done,
        Reply::error(ErrorCode::NoPort, "taken"),
        Reply::DevicesChanged { devices: vec![] },
        Reply::Introduced { slot: 1, slots: vec![1, 9], pid: 7 },
        Reply::NotIntroduced { slot: 1, refusal: IntroductionRefusal::NoOffer },
        Reply::NotIntroduced { slot: 1, refusal: IntroductionRefusal::Already { slots: vec![1] } },
        Reply::Introduction { slot: 255, slots: vec![255], pid: 0 },
        Reply::Leaving,
    ]
}

#[test]
fn every_request_survives_its_text() {
    for request in requests() {
        assert_eq!(HubRequest::decode(&request.encode()).unwrap(), request);
    }
}

#[test]
fn every_reply_survives_its_text() {
    for reply in replies() {
        let (bytes, file) = reply.encode().unwrap();
        assert!(file.is_none());
        assert_eq!(Reply::decode(&bytes, &mut vec![]).unwrap(), reply);
    }
}

#[test]
fn the_text_is_that_of_the_protocol() {
    let text = |request: HubRequest| String::from_utf8(request.encode()).unwrap();
    assert_eq!(text(HubRequest::Ping), r#"{"request":"ping"}"#);
    assert_eq!(
        text(HubRequest::Reattach { slots: vec![4], counters: false, shm: true }),
        r#"{"request":"reattach","slots":[4],"counters":false,"local":true}"#
    );
}

#[test]
fn broken_requests_are_refused() {
    for request in requests() {
        let bytes = request.encode();
        for len in 0..bytes.len() {
            assert!(HubRequest::decode(&bytes[..len]).is_err(), "{request:?} cut to {len} bytes");
        }
    }
    let broken: &[&[u8]] = &[
        b"null",
        b"[]",
        b"\xff\xfe",
        br#"{"request":"dance"}"#,
        br#"{"request":"attach","slot":256,"counters":false,"local":false}"#,
        br#"{"request":"attach","slot":-1,"counters":false,"local":false}"#,
        br#"{"request":"release"}"#,
        br#"{"request":"ping"}{"request":"ping"}"#,
    ];
    for bytes in broken {
        assert!(HubRequest::decode(bytes).is_err(), "{}", bytes.escape_ascii());
    }
    let deep = "[".repeat(60_000);
    assert!(HubRequest::decode(deep.as_bytes()).is_err());
}

#[test]
fn a_long_reply_goes_through_a_file() {
    let long = Reply::error(ErrorCode::System, "x".repeat(MAX_MESSAGE_BYTES));
    let (bytes, file) = long.encode().unwrap();
    assert!(bytes.len() < 100);
    let other = std::fs::File::open("/dev/null").unwrap();
    let mut descriptors = vec![file.unwrap(), other.into()];
    assert_eq!(Reply::decode(&bytes, &mut descriptors).unwrap(), long);
    assert_eq!(descriptors.len(), 1, "the file is taken, the other descriptor stays");
}

#[test]
fn files_that_may_change_or_block_are_not_read() {
    let (bytes, _) = Reply::InFile.encode().unwrap();
    assert!(Reply::decode(&bytes, &mut vec![]).is_err(), "no file");
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(Reply::decode(&bytes, &mut vec![reader.into()]).is_err(), "a pipe");
    let disk = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(Reply::decode(&bytes, &mut vec![disk.into()]).is_err(), "an ordinary file");
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let unsealed = rustix::fs::memfd_create("unsealed", flags).unwrap();
    assert!(Reply::decode(&bytes, &mut vec![unsealed]).is_err(), "not sealed");
    let loop_back = file(&bytes).unwrap();
    assert!(Reply::decode(&bytes, &mut vec![loop_back]).is_err(), "a file in a file");
    let huge = rustix::fs::memfd_create("huge", flags).unwrap();
    rustix::fs::ftruncate(&huge, MAX_FILE_BYTES + 1).unwrap();
    rustix::fs::fcntl_add_seals(&huge, SealFlags::SHRINK | SealFlags::WRITE).unwrap();
    assert!(Reply::decode(&bytes, &mut vec![huge]).is_err(), "huge");
}

#[test]
fn program_names_are_cut_and_cleaned() {
    assert_eq!(clean_program("ping\u{1b}[31m\n"), "ping?[31m?");
    assert_eq!(clean_program(&"é".repeat(100)).chars().count(), MAX_PROGRAM_CHARS);
}
