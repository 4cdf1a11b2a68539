//! Both ends of a link between this process and a child.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use longarm_shm::{Export, IntroducedPeer, Link, LinkEnds, LinkSide};
use memory::RemoteKeys;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use testkit::{PATIENCE, wait_for};

/// One process' end.
pub(crate) struct Couple {
    pub(crate) link: Link,
    pub(crate) export: Export,
    pub(crate) bell: OwnedFd,
    child: Option<Child>,
}

impl Couple {
    /// Starts a child that plays a role, and a link to it.
    pub(crate) fn start(role: &str) -> Couple {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("sockets");
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args(["role", "--exact", "--test-threads=1"]).env(testkit::ROLE, role);
        let child = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).spawn().expect("a child");
        // The command holds the child's end of the socket until it is dropped.
        drop(command);
        let (export, bell) = parts();
        let (keep, give) = Link::create().expect("a link");
        send(&ours, &[give.link.as_fd(), give.socket.as_fd(), export.fd(), bell.as_fd()]);
        drop(give);
        let [theirs, wake] = receive(&ours);
        let with = IntroducedPeer { export: theirs, wake, pid: child.id() };
        let link = Link::open(keep, with, LinkSide::Asked).expect("a link");
        link.confirm();
        assert!(link.wait_confirmed(PATIENCE));
        Couple { link, export, bell, child: Some(child) }
    }

    /// The child's end: the descriptors come on its standard input.
    pub(crate) fn inherit() -> Couple {
        let stdin = std::io::stdin();
        let [link, socket, export, wake] = receive(stdin.as_fd());
        let (ours, bell) = parts();
        send(stdin.as_fd(), &[ours.fd(), bell.as_fd()]);
        let parent = rustix::process::getppid().expect("a parent").as_raw_nonzero().get() as u32;
        let with = IntroducedPeer { export, wake, pid: parent };
        let link = Link::open(LinkEnds { link, socket }, with, LinkSide::Offered).expect("a link");
        link.confirm();
        assert!(link.wait_confirmed(PATIENCE));
        Couple { link, export: ours, bell, child: None }
    }

    /// Sends a frame on lane 0.
    pub(crate) fn send(&self, bytes: &[u8]) {
        let mut producer = self.link.producer(0);
        let mut room = producer.reserve(bytes.len()).expect("room");
        room.write(0, bytes);
        room.commit();
    }

    /// Waits for a frame on lane 0.
    pub(crate) fn receive(&self) -> Vec<u8> {
        wait_for("a frame", || take(&self.link))
    }

    /// Waits until the child has ended by itself.
    pub(crate) fn wait(&mut self) {
        let mut child = self.child.take().expect("a child");
        assert!(child.wait().expect("our child").success());
    }

    /// Kills the child and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("our child");
            child.wait().expect("our child");
        }
    }
}

impl Drop for Couple {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The next frame on lane 0.
pub(crate) fn take(link: &Link) -> Option<Vec<u8>> {
    let mut consumer = link.consumer(0)?;
    let frame = consumer.peek()?;
    let mut bytes = vec![0; frame.len_bytes()];
    assert!(frame.copy_out(0, &mut bytes));
    frame.release();
    Some(bytes)
}

/// Waits for a frame asleep: blocks until the bell rings.
pub(crate) fn block(link: &Link, export: &Export, bell: BorrowedFd<'_>) -> Vec<u8> {
    loop {
        if let Some(frame) = take(link) {
            return frame;
        }
        assert!(export.fall_asleep(false), "the barrier works, or the export has recorded that it does not");
        if link.waiting() == 0 {
            let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            let mut fds = [PollFd::from_borrowed_fd(bell, PollFlags::IN)];
            assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "a frame did not ring the bell");
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        export.wake_up();
    }
}

fn parts() -> (Export, OwnedFd) {
    let keys = RemoteKeys::from_words(&[0; RemoteKeys::WORDS]).expect("as many words");
    let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("an eventfd");
    (Export::new(&keys).expect("an export"), bell)
}

fn send(socket: impl AsFd, descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    sendmsg(socket, &[std::io::IoSlice::new(b"!")], &mut control, SendFlags::empty()).expect("sent");
}

fn receive<const N: usize>(socket: impl AsFd) -> [OwnedFd; N] {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let into = &mut [std::io::IoSliceMut::new(&mut byte)];
    recvmsg(socket, into, &mut control, RecvFlags::CMSG_CLOEXEC).expect("received");
    let rights = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => rights.collect(),
        _ => Vec::new(),
    });
    rights.collect::<Vec<_>>().try_into().expect("as many descriptors")
}
