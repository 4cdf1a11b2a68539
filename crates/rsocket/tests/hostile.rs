//! Peers that know the connection manager and nothing of rsockets' rules.

mod support;

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;

use connect::{ConnParam, Event, EventKind, EventQueue, Id, Param, PortSpace};
use device::{
    Cq, Device, OpenOptions, Payload, Qp, QpCaps, QpSpec, QpState, QpType, Qpn, RKey, RemoteAddr, SendFlags, SendOp,
    SendWr,
};
use longarm_rsocket::{self as rsocket, Errno};
use support::with_hub;

const HERE: &str = "127.0.0.1:7471";

fn listener() -> RawFd {
    let fd = rsocket::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    rsocket::bind(fd, HERE.parse().unwrap()).unwrap();
    rsocket::listen(fd, 0).unwrap();
    rsocket::set_status_flags(fd, libc::O_NONBLOCK).unwrap();
    fd
}

/// A stranger's end.
struct Stranger {
    queue: EventQueue,
    id: Id,
    qp: Qp,
    _cq: Cq,
}

impl Stranger {
    fn new() -> Stranger {
        let queue = EventQueue::new().unwrap();
        let id = Id::new(&queue, PortSpace::Tcp, QpType::Rc).unwrap();
        let device = Device::open(&OpenOptions { name: Some("lo".into()) }).unwrap();
        let (pd, cq) = (device.alloc_pd().unwrap(), device.create_cq(100, None, 0).unwrap());
        let caps = QpCaps { max_send_wr: 50, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 0 };
        let spec =
            QpSpec { qp_type: QpType::Rc, pd: &pd, send_cq: &cq, recv_cq: &cq, srq: None, caps, signal_all: true };
        let qp = device.create_qp(&spec).unwrap();
        Stranger { queue, id, qp, _cq: cq }
    }

    fn next(&self) -> Event {
        testkit::wait_for("an event", || self.queue.next())
    }

    fn to(&self, state: QpState) {
        let (attr, mask) = self.id.qp_attr(state).unwrap();
        self.qp.modify(&attr, mask).unwrap();
    }

    /// Asks for a connection with that greeting.
    fn ask(&self, greeting: &[u8]) {
        self.id.resolve_addr(None, HERE.parse().unwrap()).unwrap();
        assert_eq!(self.next().kind, EventKind::AddrResolved);
        self.id.resolve_route().unwrap();
        assert_eq!(self.next().kind, EventKind::RouteResolved);
        self.to(QpState::Init);
        let param = ConnParam { private_data: greeting.to_vec(), qpn: self.qp.qpn(), ..ConnParam::default() };
        self.id.connect(&param).unwrap();
    }

    /// Completes it; the server's greeting.
    fn enter(&self) -> Vec<u8> {
        let event = self.next();
        assert_eq!(event.kind, EventKind::ConnectResponse);
        self.to(QpState::Rtr);
        self.to(QpState::Rts);
        self.id.establish().unwrap();
        let Param::Conn(conn) = event.param else { panic!("no greeting") };
        conn.private_data
    }

    /// Sends a message of no bytes.
    fn say(&self, imm: u32) {
        let nowhere = RemoteAddr { addr: 0, rkey: RKey(0) };
        let wr = SendWr {
            wr_id: 0,
            op: SendOp::WriteImm(nowhere, imm),
            flags: SendFlags::empty(),
            payload: Payload::empty(),
            datagram: None,
            xrc_srq: None,
        };
        self.qp.post_send([wr]).unwrap();
    }
}

fn accepted(listener: RawFd) -> RawFd {
    let mut fds = [libc::pollfd { fd: listener, events: libc::POLLIN, revents: 0 }];
    assert_eq!(rsocket::poll(&mut fds, 30_000), Ok(1));
    rsocket::accept(listener).unwrap()
}

/// A greeting with buffers that nobody has.
fn greeting(list_len: u32, buffer_len: u32) -> Vec<u8> {
    let mut bytes = vec![1, 2, 0, 100, 0, 0, 0, 255];
    for len in [list_len, buffer_len] {
        bytes.extend([0xff; 12]);
        bytes.extend(len.to_be_bytes());
    }
    bytes
}

#[test]
fn greetings_without_sense_are_refused() {
    with_hub("greetings_without_sense_are_refused", || {
        let listener = listener();
        for bytes in [vec![], vec![1; 8], vec![0; 56], vec![9; 56], greeting(0, 100)] {
            let stranger = Stranger::new();
            stranger.ask(&bytes);
            let mut fds = [libc::pollfd { fd: listener, events: libc::POLLIN, revents: 0 }];
            assert_eq!(rsocket::poll(&mut fds, 30_000), Ok(1));
            assert_eq!(rsocket::accept(listener), Err(Errno(libc::EAGAIN)));
            assert_eq!(stranger.next().kind, EventKind::Rejected);
        }
        rsocket::close(listener).unwrap();
    });
}

#[test]
fn data_that_was_never_written_ends_the_connection() {
    with_hub("data_that_was_never_written_ends_the_connection", || {
        let listener = listener();
        for imm in [0x0100_0000, 0x1fff_ffff] {
            let stranger = Stranger::new();
            stranger.ask(&greeting(2, 100));
            let server = accepted(listener);
            assert_eq!(stranger.enter()[0], 1);
            stranger.say(imm);
            let received = rsocket::recv(server, &mut [IoSliceMut::new(&mut [0; 10])], 0);
            assert_eq!(received.err(), Some(Errno(libc::EPROTO)));
            rsocket::close(server).unwrap();
        }
        rsocket::close(listener).unwrap();
    });
}

#[test]
fn messages_of_no_known_kind_are_ignored() {
    with_hub("messages_of_no_known_kind_are_ignored", || {
        let listener = listener();
        let stranger = Stranger::new();
        stranger.ask(&greeting(2, 100));
        let server = accepted(listener);
        stranger.enter();
        for imm in [0x2000_0000, 0x4000_0001, 0xa000_0000, 0xc000_ffff, 0xe000_0009, 0xe000_0001, 0x8000_ffff] {
            stranger.say(imm);
        }
        stranger.say(0xe000_0002);
        // The grants go to a list that nobody has, and the connection breaks, or the end is seen first.
        let received = rsocket::recv(server, &mut [IoSliceMut::new(&mut [0; 10])], 0);
        assert!(matches!(received, Ok((0, _)) | Err(_)), "{received:?}");
        assert!(matches!(rsocket::send(server, &[IoSlice::new(b"x")], libc::MSG_DONTWAIT, None), Ok(1) | Err(_)));
        rsocket::close(server).unwrap();
        assert_ne!(stranger.qp.qpn(), Qpn::default());
        rsocket::close(listener).unwrap();
    });
}
