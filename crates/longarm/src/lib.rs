//! RDMA on any machine, in user space.
//!
//! Two programs, on one machine or two, send messages to each other and access each other's memory,
//! by the rules of RDMA. No special network card, no kernel module and no root: packets are RoCEv2
//! on an ordinary UDP socket, and the device that carries the operations out is a library in each
//! process. Where a machine has an RDMA device, the same program [runs on that](#real-hardware).
//!
//! # A first message
//!
//! One program listens, another connects. This example does both; usually they are two processes,
//! on one machine or on two:
//!
//! ```
//! use std::time::Duration;
//! use longarm::{Endpoint, Listener};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # const SECOND: Duration = Duration::from_secs(10);
//! let listener = Listener::bind("127.0.0.1:0").wait(SECOND)?;
//! let calling = Endpoint::connect(listener.local_addr(), b"");
//! let server = listener.accept().wait(SECOND)?;               // or .await
//! let client = calling.wait(SECOND)?;                         // two queue pairs, connected
//!
//! let message = server.recv(server.allocate(64)?).start();    // a buffer for the message
//! let hello = client.allocate(64)?.with(b"hello");
//! let hello = client.send(hello).wait(SECOND)?;               // lent, and given back
//! assert_eq!(&message.wait(SECOND)?[..], b"hello");
//! # drop(hello);
//! # Ok(())
//! # }
//! ```
//!
//! An [`Endpoint`] has a device, a protection domain and a completion queue of its own. Programs with many
//! connections share those:
//!
//! ```
//! # use std::time::Duration;
//! use longarm::{Device, Listener};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # const SECOND: Duration = Duration::from_secs(10);
//! let device = Device::open()?;                        // a network interface, or the system's RDMA device
//! let domain = device.protection_domain()?;            // memory and queue pairs for use together
//! let cq = device.completion_queue()?;                 // completions are reported there
//!
//! let listener = Listener::bind("127.0.0.1:0").wait(SECOND)?;
//! let calling = longarm::connect(listener.local_addr(), domain.rc(&cq), b"");
//! let server = listener.incoming().wait(SECOND)?.accept(domain.rc(&cq), b"").wait(SECOND)?;
//! let client = calling.wait(SECOND)?;
//! # drop((server, client));
//! # Ok(())
//! # }
//! ```
//!
//! # Lending
//!
//! The device works on its own: it reads and writes memory while the program does something else.
//! So memory is *lent* to it. A [`Buffer`] is ordinary bytes until a request takes it; then the
//! program no longer has it, and the request's completion brings it back. A corrupted message or a
//! use after free, possible in other RDMA libraries, does not compile here:
//!
//! ```compile_fail
//! # fn example(qp: longarm::QueuePair, mut buffer: longarm::Buffer) {
//! let sending = qp.send(buffer).start();
//! buffer[0] = 1;                                       // the device has it
//! # }
//! ```
//!
//! Dropping the future does not help: the device still carries the request out, and the buffer is freed
//! when it is done. Dropping the queue pair does: the device forgets the request, and its buffers come
//! back through the futures and tickets that stand for it.
//!
//! Memory of the program becomes a buffer, too: [`register`](ProtectionDomain::register) takes a `Vec<u8>` or a mapped
//! file, and [`into_memory`](Buffer::into_memory) gives it back.
//!
//! Memory that *peers* reach is different, because they change it at any time. A [`MemoryRegion`]
//! gives no references to its bytes. It is copied in and out, or used word by word; and the peer
//! needs its [`RemoteKey`]:
//!
//! ```
//! # use std::time::Duration;
//! # use longarm::{Access, Device, RemoteKey};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # const SECOND: Duration = Duration::from_secs(10);
//! # let device = Device::open()?;
//! # let domain = device.protection_domain()?;
//! # let cq = device.completion_queue()?;
//! # let (a, b) = (domain.rc(&cq).build()?, domain.rc(&cq).build()?);
//! # let (to_a, to_b) = (a.connection_info(), b.connection_info());
//! # let (qp, _peer) = (a.connect(&to_b)?, b.connect(&to_a)?);
//! // One side exposes a counter …
//! let counter = domain.expose(8, Access::REMOTE_READ | Access::REMOTE_ATOMIC)?;
//! counter.store(0, 41)?;
//! let key = counter.key().to_bytes();
//!
//! // … and the other, who was told the key, adds to it. The owner's program takes no part.
//! let key = RemoteKey::from_bytes(&key)?;
//! assert_eq!(qp.fetch_add(&key, 1).wait(SECOND)?, 41);
//! let copy = qp.read(domain.allocate(8)?, &key).wait(SECOND)?;
//! assert_eq!(copy[..], 42u64.to_ne_bytes());
//! # Ok(())
//! # }
//! ```
//!
//! # Three ways to wait
//!
//! A method that names an operation returns a [`Work`]: a request that has not been posted. Its
//! caller chooses how to get the completion.
//!
//! * **Blocking**: [`wait`](Work::wait). The thread polls for some microseconds, then sleeps.
//! * **Async**: `.await`, on any executor, or [`start`](Work::start) it now and await it later. No
//!   runtime is needed: the device's own thread wakes the task.
//! * **Polling**: [`post`](Work::post) returns a [`Ticket`], and [`CompletionQueue::poll`] the
//!   completions, with no system call, no allocation and no other thread involved. Here belong
//!   [unsignaled](Work::unsignaled) requests and [batches](QueuePair::batch), which are several
//!   requests for one doorbell.
//!
//! They can be mixed on one queue pair and on one completion queue. Completions, events and incoming connections are
//! [`Stream`](futures_core::Stream)s as well. No future blocks its thread: names are looked up elsewhere.
//!
//! # Services
//!
//! | | connects | promises | operations |
//! |---|---|---|---|
//! | [`Rc`](service::Rc) | two [queue pairs](QueuePair) | every message once, in order, or an error | all |
//! | [`Uc`](service::Uc) | two queue pairs | whole messages in order; some may be lost | SEND, WRITE |
//! | [`Ud`](service::Ud) | [endpoints](UdQueuePair) with anybody | nothing | SEND of one packet, multicast |
//!
//! [`connection`] tells how two programs connect, and how a connection ends.
//!
//! # Real hardware
//!
//! Below the same API there are two [`Provider`]s: Longarm's own device, and the system's `libibverbs` and `librdmacm`,
//! which are loaded if they are there. [`Device::open`] takes a device of the system with an active port, if there is
//! one. The variables `LONGARM_PROVIDER` (`verbs` or `longarm`) and `LONGARM_DEVICE` (a name such as `mlx5_0`) choose
//! from outside, and [`Device::open_by`] and [`Device::open_named`] in code. [`Device::capabilities`] tells what a device
//! lacks.
//!
//! # When something goes wrong
//!
//! Errors are enums with plain words, one per family of verbs; see [`error`]. A failed request says
//! why its queue pair died, and so does [`QueuePair::failure`]. [`Device::counters`] counts dropped
//! packets by reason, and every packet can be [captured](Device::capture) for Wireshark. [Injected
//! faults](Device::set_faults) show how a program bears loss, duplicates and delay.
//!
//! # What this crate is
//!
//! It is the safe interface to two others: the provider (the crate `longarm-provider`), which carries the operations
//! out and makes connections, and the memory (`longarm-memory`) that is lent. This crate knows the waiters of each
//! request. It has no protocol code, no sockets and no unsafe code.
//!
//! # Features
//!
//! * `bytes`: a `bytes::BytesMut` can be given to the library.
//! * `memmap2`: a mapped file, `memmap2::MmapMut`, can be given to the library.
//!
//! Neither is on by default.
//!
//! # Layers
//!
//! Modules import from the lines below them only:
//!
//! ```text
//!  connection     connect, listen, look up: attempts, requests, the dispatcher's thread
//!  endpoint       a queue pair with everything around it
//!  qp, batch      queue pairs: building, states, operations
//!  work, srq      requests before they are posted; shared receive queues
//!  receive, posted, in_flight      posted requests and those who wait for them
//!  cq, wait, blocking_call      completions: taken from the device, sorted, delivered
//!  completion, object      the outcome of a request, with its buffers
//!  flight         requests that the device has, and their loans; failures
//!  calls, scoped, region, window, scratch, buffer, domain      memory
//!  open_device, events, remote, address, error      the device, names, errors
//! ```
//!
//! A method that makes an object stands in the file of that object, not in the file of its parent. So
//! [`Device::completion_queue`] is in `cq`, [`ProtectionDomain::rc`] in `qp`, [`MemoryRegion::window`] in
//! `window` and [`Endpoint::connect`] in `connection`: objects never name those made from them.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod address;
mod batch;
mod blocking_call;
mod buffer;
mod calls;
mod completion;
pub mod connection;
mod cq;
mod descriptor;
mod domain;
mod endpoint;
pub mod error;
mod events;
mod flight;
mod in_flight;
mod memory_watch;
mod object;
mod open_device;
mod posted;
mod qp;
mod receive;
mod region;
mod remote;
mod request;
mod scoped;
mod scratch;
mod srq;
mod wait;
mod window;
mod work;

pub use address::AddressHandle;
pub use batch::{Batch, BatchFailure};
pub use buffer::Buffer;
pub use calls::{RegionCall, ServedCalls};
pub use completion::{Completion, Message, Outcome};
pub use connection::{
    Accept, Bind, Connectable, Connecting, Connection, Disconnected, FindRoute, Incoming, IncomingStream, Listener,
    Lookup, NextIncoming, Route, Target, UdPeer, connect,
};
pub use cq::{CompletionChannel, CompletionQueue, Completions};
pub use domain::ProtectionDomain;
pub use endpoint::Endpoint;
pub use error::endpoint::EndpointError;
pub use error::{
    CaptureError, ConnectError, Failure, KeyError, OpenError, PostError, ReclaimError, Refusal, ResourceError,
    WaitError, WorkError,
};
pub use events::{Event, Events};
pub use flight::{Lend, Ticket};
pub use in_flight::InFlight;
pub use object::ObjectRead;
pub use open_device::Device;
pub use qp::service;
pub use qp::{ConnectionInfo, MulticastMembership, QpBuilder, QueuePair, Retry, UdQueuePair, Unconnected};
pub use receive::Receive;
pub use region::{MemoryRegion, RegionSlice};
pub use remote::RemoteKey;
pub use scoped::ScopedRegion;
pub use srq::SharedReceiveQueue;
pub use window::{BoundWindow, Window, WindowType};
pub use work::{Unsignaled, Work};

pub use device::{
    Capabilities, CqError, DeviceCounters, DeviceInfo, Limits, MemoryWatch, PortInfo, PortState, Provider,
};
pub use faults::FaultPlan;
pub use memory::{BorrowedMemory, OwnedMemory};
pub use transport::{Access, CompletionOp, Mtu, QpCounters, QpEvent, QpState, QpType, Reason, ReplyBytes, Status};
pub use wire::{Gid, QKey, Qpn, RKey};
