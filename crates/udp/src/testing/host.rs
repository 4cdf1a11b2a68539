//! Hosts: further network namespaces, joined by virtual Ethernet pairs.

use super::{TestInterface, ethtool, netns};
use crate::sys::check;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

/// The longest wait for a link. Links come up within a second.
const LINK_PATIENCE_MS: u32 = 10_000;

/// A network namespace with one interface `veth0`.
pub struct NetHost {
    netns: File,
    /// Address on `veth0`, prefix of 24 bits.
    pub v4: Ipv4Addr,
    /// Address on `veth0`, prefix of 64 bits.
    pub v6: Ipv6Addr,
}

/// Two hosts joined by a virtual Ethernet pair with this MTU: 192.0.2.1 and fd00:2::1, and 192.0.2.2 and
/// fd00:2::2. They vanish when dropped.
///
/// # Panics
/// If they cannot be made. The caller must be within [`in_new_netns`](super::in_new_netns), or root.
pub fn hosts(mtu: u32) -> (NetHost, NetHost) {
    let (left, right) = (NetHost::new(1), NetHost::new(2));
    left.run(|| TestInterface::pair("veth0", mtu, right.netns.as_raw_fd()));
    left.set_up();
    right.set_up();
    left.wait_for(&right);
    right.wait_for(&left);
    (left, right)
}

impl NetHost {
    fn new(number: u8) -> NetHost {
        let make = || {
            netns::enter_new();
            File::open("/proc/thread-self/ns/net").expect("the thread's namespace")
        };
        let netns = thread::spawn(make).join().unwrap_or_else(|panic| resume_unwind(panic));
        let v4 = Ipv4Addr::new(192, 0, 2, number);
        let v6 = Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, number.into());
        NetHost { netns, v4, v6 }
    }

    fn set_up(&self) {
        self.run(|| {
            let veth = TestInterface::named("veth0");
            veth.add_address(self.v4.into(), 24);
            veth.add_address(self.v6.into(), 64);
            veth.set_up(true);
        });
    }

    /// Waits until packets reach another host: the kernel drops packets until it has noticed the link.
    fn wait_for(&self, other: &NetHost) {
        for (ours, theirs) in [(self.v4.into(), other.v4.into()), (self.v6.into(), other.v6.into())] {
            let bind = |address: IpAddr| UdpSocket::bind((address, 0)).expect("the host's address");
            let (from, to) = (self.run(|| bind(ours)), other.run(|| bind(theirs)));
            to.set_read_timeout(Some(Duration::from_millis(1))).expect("is set");
            let to_address = to.local_addr().expect("is bound");
            let gets_there = || from.send_to(&[0], to_address).is_ok() && to.recv(&mut [0]).is_ok();
            let waited = (0..LINK_PATIENCE_MS).find(|_| gets_there() || sleep_ms());
            assert!(waited.is_some(), "packets get from {ours} to {theirs}");
        }
    }

    /// Runs `body` on a thread of this host. Threads, processes and sockets made there stay on the host.
    /// Panics propagate to the caller.
    ///
    /// # Panics
    /// If `body` does.
    pub fn run<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| {
            let entered = || {
                self.enter();
                body()
            };
            scope.spawn(entered).join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Moves the calling thread to this host for good.
    ///
    /// # Panics
    /// If the system does not allow it.
    pub fn enter(&self) {
        // SAFETY: takes an open descriptor and a flag; changes only the network namespace of this thread.
        let result = unsafe { libc::setns(self.netns.as_raw_fd(), libc::CLONE_NEWNET) };
        check(result).expect("the host's namespace can be entered");
    }
}

/// The interface features that move segmentation from the kernel to the interface.
const SEGMENTATION: [&str; 5] = [
    "tx-udp-segmentation",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
];

/// Makes the kernel segment the packets that an interface of this thread's network namespace sends. Captures
/// then show single packets, as on a wire.
///
/// # Panics
/// If the system does not allow it.
pub fn without_segmentation_offload(interface: &str) {
    for feature in SEGMENTATION {
        ethtool::switch(interface, feature, false).expect("the interface's segmentation can be switched off");
    }
}

/// Makes an interface of this thread's network namespace coalesce received packets, like the drivers of
/// network cards. For a virtual pair this takes effect if the other end is [`without_segmentation_offload`].
///
/// # Panics
/// If the system does not allow it.
pub fn with_receive_coalescing(interface: &str) {
    ethtool::switch(interface, "rx-gro", true).expect("the interface's coalescing can be switched on");
}

/// Sleeps for a millisecond. Always returns false, so that the caller tries again.
fn sleep_ms() -> bool {
    thread::sleep(Duration::from_millis(1));
    false
}
