use super::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::fs::File;
use std::os::fd::AsFd;

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn files(count: usize) -> Vec<File> {
    (0..count).map(|_| File::open("/dev/null").unwrap()).collect()
}

fn send_with(socket: &OwnedFd, bytes: &[u8], files: &[File]) -> io::Result<()> {
    let descriptors: Vec<_> = files.iter().map(|f| f.as_fd()).collect();
    send(socket.as_fd(), bytes, &descriptors)
}

#[test]
fn a_message_arrives_whole_with_its_descriptors() {
    let (a, b) = pair();
    send_with(&a, b"one", &files(2)).unwrap();
    send_with(&a, b"two", &[]).unwrap();
    let first = receive(b.as_fd(), 2).unwrap();
    assert_eq!((first.bytes.as_slice(), first.descriptors.len()), (&b"one"[..], 2));
    for descriptor in &first.descriptors {
        let flags = rustix::io::fcntl_getfd(descriptor).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
    assert_eq!(receive(b.as_fd(), 0).unwrap().bytes, b"two");
    assert!(matches!(receive(b.as_fd(), 0), Err(ReceiveError::Nothing)));
}

#[test]
fn a_closed_end_is_reported_after_its_messages() {
    let (a, b) = pair();
    send_with(&a, b"last", &[]).unwrap();
    drop(a);
    assert_eq!(receive(b.as_fd(), 0).unwrap().bytes, b"last");
    assert!(matches!(receive(b.as_fd(), 0), Err(ReceiveError::Closed)));
    assert!(send_with(&b, b"to nobody", &[]).is_err());
}

#[test]
fn the_longest_message_passes_and_one_more_byte_does_not() {
    let (a, b) = pair();
    send_with(&a, &vec![1; MAX_MESSAGE_BYTES], &[]).unwrap();
    assert_eq!(receive(b.as_fd(), 0).unwrap().bytes.len(), MAX_MESSAGE_BYTES);
    send_with(&a, &vec![1; MAX_MESSAGE_BYTES + 1], &[]).unwrap();
    send_with(&a, b"next", &[]).unwrap();
    assert!(matches!(receive(b.as_fd(), 0), Err(ReceiveError::TooLong)));
    assert_eq!(receive(b.as_fd(), 0).unwrap().bytes, b"next");
}

/// Whether all writing ends of the pipe are closed.
fn is_closed_everywhere(reader: &io::PipeReader) -> bool {
    let mut fds = [rustix::event::PollFd::new(reader, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec::default();
    rustix::event::poll(&mut fds, Some(&now)).unwrap();
    fds[0].revents().contains(rustix::event::PollFlags::HUP)
}

#[test]
fn unexpected_descriptors_are_closed() {
    let (a, b) = pair();
    for (sent, most) in [(1, 0), (3, 2), (MAX_DESCRIPTORS, 1), (5, 4)] {
        let (readers, writers): (Vec<_>, Vec<_>) = (0..sent).map(|_| io::pipe().unwrap()).unzip();
        let writers: Vec<File> = writers.into_iter().map(|w| OwnedFd::from(w).into()).collect();
        send_with(&a, b"x", &writers).unwrap();
        drop(writers);
        assert!(!readers.iter().any(is_closed_everywhere), "they are in the message");
        let result = receive(b.as_fd(), most);
        assert!(matches!(result, Err(ReceiveError::TooManyDescriptors)), "{sent} {most}");
        assert!(readers.iter().all(is_closed_everywhere), "{sent} {most}");
    }
}

#[test]
fn a_message_may_come_without_its_descriptors() {
    let (a, b) = pair();
    send_with(&a, b"three", &files(3)).unwrap();
    send_with(&a, b"two", &files(2)).unwrap();
    let cut = receive_even_cut(b.as_fd(), 2).unwrap();
    assert_eq!((cut.bytes.as_slice(), cut.descriptors.len(), cut.is_cut), (&b"three"[..], 0, true));
    let whole = receive_even_cut(b.as_fd(), 2).unwrap();
    assert_eq!((whole.bytes.as_slice(), whole.descriptors.len(), whole.is_cut), (&b"two"[..], 2, false));
}

#[test]
fn peeking_duplicates_the_descriptors_and_leaves_the_message() {
    let (a, b) = pair();
    send_with(&a, b"kept", &files(MAX_DESCRIPTORS)).unwrap();
    drop(a);
    for _ in 0..3 {
        let message = peek(b.as_fd(), MAX_DESCRIPTORS).unwrap();
        assert_eq!((message.bytes.as_slice(), message.descriptors.len()), (&b"kept"[..], MAX_DESCRIPTORS));
    }
    assert_eq!(receive(b.as_fd(), MAX_DESCRIPTORS).unwrap().descriptors.len(), MAX_DESCRIPTORS);
    assert!(matches!(peek(b.as_fd(), 1), Err(ReceiveError::Closed)));
}

#[test]
fn sending_does_not_wait_for_a_reader() {
    let (a, _b) = pair();
    let full = (0..10_000).find_map(|_| send_with(&a, &[7; 4096], &[]).err());
    assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn the_last_message_of_a_peer_that_did_not_read_is_received() {
    let (a, b) = pair();
    send_with(&a, b"never read", &[]).unwrap();
    send_with(&b, b"goodbye", &[]).unwrap();
    drop(b);
    assert_eq!(receive(a.as_fd(), 0).unwrap().bytes, b"goodbye");
    assert!(matches!(receive(a.as_fd(), 0), Err(ReceiveError::Closed)));
}
