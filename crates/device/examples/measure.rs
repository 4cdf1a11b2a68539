//! Latency, bandwidth and rate between two processes on one host, over real packets, beside
//! plain UDP in the same run.
//!
//! ```text
//! cargo run --release -p longarm-device --features testing --example measure [WHAT...]
//! ```
//! Needs UDP port 4791 to be free, but no hub. The two processes are pinned to processors 0
//! and 1.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use device::{Completion, Device, Gid, Payload, Qpn, RKey, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr, testing};
use longarm_device as device;
use rustix::thread::{CpuSet, sched_setaffinity};
use shared::Side;

mod shared;

const MEMORY_BYTES: usize = 2 << 20;
/// The memory that messages use in a circle, which fits a processor's cache.
const IN_USE_BYTES: usize = 256 << 10;
const DEPTH: usize = 128;
const WARM_UP: Duration = Duration::from_millis(300);
const SPAN: Duration = Duration::from_millis(1000);

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("--peer") => peer(&args[1], &args[2]),
        _ => parent(&args),
    }
}

fn parent(wanted: &[String]) {
    pin(0);
    let all = [
        "udp_hop",
        "send_hop",
        "udp_lat",
        "send_lat",
        "write_lat",
        "udp_rate",
        "send_rate",
        "send_rate_1",
        "write_rate",
        "write_64k",
        "send_64k",
        "read_64k",
        "write_1m",
    ];
    let group = udp::PortGroup::bind(3).expect("port 4791 is free");
    for what in all {
        if wanted.is_empty() || wanted.iter().any(|w| w == what) {
            let median = median((0..3).map(|_| run(&group, what)).collect());
            println!("{what:>12}: {median:10.3} {}", unit(what));
        }
    }
}

fn unit(what: &str) -> &'static str {
    match what {
        _ if what.ends_with("hop") => "us for a message, sent and received by one thread",
        _ if what.ends_with("lat") => "us one way",
        _ if what.contains("rate") => "M/s",
        _ => "GB/s",
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    let _ = sched_setaffinity(None, &set);
}

fn run(group: &udp::PortGroup, what: &str) -> f64 {
    match what {
        "udp_hop" => return udp_hop(),
        "send_hop" => return send_hop(group),
        _ if what.starts_with("udp") => return baseline(what),
        _ => {}
    }
    let end = End::new(testing::open(group, 1, "lo"));
    let mut child = start_peer(group, what, &end.describe());
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("the peer's line");
    end.connect(&line);
    let result = end.measure(what);
    if env::var_os("COUNTERS").is_some() {
        let used = end.device.counters();
        let used = used.iter().filter(|(_, value)| *value > 0).map(|(name, value)| format!("{name} {value}"));
        eprintln!("{}", used.collect::<Vec<_>>().join(", "));
        let used = end.qp.counters();
        let used = used.iter().filter(|(_, value)| *value > 0).map(|(name, value)| format!("{name} {value}"));
        eprintln!("{}", used.collect::<Vec<_>>().join(", "));
    }
    child.kill().expect("the peer can be killed");
    child.wait().expect("the peer ends");
    result
}

fn start_peer(group: &udp::PortGroup, what: &str, us: &str) -> Child {
    let socket = group.slot(2).expect("slot 2").try_clone_to_owned().expect("a descriptor");
    group.open_slot(2).expect("slot 2");
    let mut command = Command::new(env::current_exe().expect("a path"));
    command.args(["--peer", what, us]).stdin(Stdio::from(socket)).stdout(Stdio::piped());
    command.spawn().expect("a second process")
}

fn peer(what: &str, them: &str) {
    pin(1);
    if what.starts_with("udp") {
        return baseline_peer(what, them);
    }
    let socket = std::io::stdin().as_fd().try_clone_to_owned().expect("a socket as standard input");
    let end = End::new(testing::open_socket(socket, 2, "lo"));
    end.connect(them);
    if what.starts_with("send") {
        for index in 0..DEPTH {
            end.post_recv(index, what);
        }
    }
    println!("{}", end.describe());
    std::io::stdout().flush().expect("a pipe");
    end.serve(what);
}

/// One side, with the address of the other.
struct End {
    side: Side,
    peer: std::cell::Cell<Option<RemoteAddr>>,
}

impl std::ops::Deref for End {
    type Target = Side;

    fn deref(&self) -> &Side {
        &self.side
    }
}

impl End {
    fn new(device: Device) -> End {
        End { side: Side::new(device, MEMORY_BYTES, DEPTH), peer: std::cell::Cell::new(None) }
    }

    fn describe(&self) -> String {
        format!("{} {} {} {}", self.qp.qpn().get(), self.gid.ip(), self.mr.addr(), self.mr.rkey().0)
    }

    fn connect(&self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [qpn, ip, addr, rkey] = words[..] else { panic!("a line of four words, not {line:?}") };
        let ip: IpAddr = ip.parse().expect("an address");
        self.peer
            .set(Some(RemoteAddr { addr: addr.parse().expect("a number"), rkey: RKey(rkey.parse().expect("a key")) }));
        self.side.connect(Qpn::new(qpn.parse().expect("a number")), Gid::from(ip));
    }

    fn post_recv(&self, index: usize, what: &str) {
        let sge = self.sge(offset_of(what, index), len_of(what));
        self.qp.post_recv([RecvWr { wr_id: index as u64, sgl: [sge].into_iter().collect() }]).expect("room");
    }

    fn wr(&self, what: &str, index: usize) -> SendWr {
        let (len, remote) = (len_of(what), self.peer.get().expect("connected"));
        let offset = offset_of(what, index);
        let remote = RemoteAddr { addr: remote.addr + offset as u64, ..remote };
        let op = match what.split('_').next() {
            Some("write") => SendOp::Write(remote),
            Some("read") => SendOp::Read(remote),
            _ => SendOp::Send,
        };
        let payload = Payload::Sgl([self.sge(offset, len)].into_iter().collect());
        SendWr { wr_id: index as u64, op, flags: SendFlags::SIGNALED, payload, datagram: None, xrc_srq: None }
    }

    fn poll(&self, out: &mut Vec<Completion>) -> usize {
        out.clear();
        let count = self.cq.poll(out, 64).expect("no overrun");
        for completion in out.iter() {
            assert_eq!(completion.status, device::Status::Success, "{:?}", self.qp.failure());
        }
        count
    }

    fn measure(&self, what: &str) -> f64 {
        match what {
            "send_lat" => self.ping(what),
            "write_lat" => self.write_ping(what),
            _ => self.stream(what),
        }
    }

    fn serve(&self, what: &str) {
        match what {
            "send_lat" => self.echo(what),
            "write_lat" => self.write_echo(what),
            _ if what.starts_with("send") => self.consume(what),
            _ => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
        }
    }

    fn ping(&self, what: &str) -> f64 {
        for index in 0..DEPTH {
            self.post_recv(index, what);
        }
        let mut out = Vec::new();
        round_trips(|| {
            self.qp.post_send([SendWr { flags: SendFlags::empty(), ..self.wr(what, 0) }]).expect("room");
            while self.poll(&mut out) == 0 {}
            self.post_recv(0, what);
        })
    }

    fn echo(&self, what: &str) {
        let mut out = Vec::new();
        loop {
            if self.poll(&mut out) > 0 {
                self.qp.post_send([SendWr { flags: SendFlags::empty(), ..self.wr(what, 0) }]).expect("room");
                self.post_recv(0, what);
            }
        }
    }

    /// The other side's WRITE changes the last byte here.
    fn write_ping(&self, what: &str) -> f64 {
        let mut turn = 0u8;
        let mut out = Vec::new();
        round_trips(|| {
            turn = turn.wrapping_add(1);
            self.write_turn(what, turn);
            while self.byte(4096 + 63) != turn {
                self.poll(&mut out);
            }
        })
    }

    fn write_echo(&self, what: &str) {
        let mut turn = 0u8;
        let mut out = Vec::new();
        loop {
            self.poll(&mut out);
            if self.byte(4096 + 63) != turn {
                turn = self.byte(4096 + 63);
                self.write_turn(what, turn);
            }
        }
    }

    fn byte(&self, at: usize) -> u8 {
        let mut byte = [0];
        self.mr.region().expect("allocated").span().part(at, 1).expect("inside").read(&mut byte);
        byte[0]
    }

    fn write_turn(&self, what: &str, turn: u8) {
        self.mr.region().expect("allocated").span().part(0, 64).expect("inside").write(&[turn; 64]);
        let mut wr = self.wr(what, 0);
        if let SendOp::Write(remote) = &mut wr.op {
            remote.addr += 4096;
        }
        wr.flags = SendFlags::empty();
        self.qp.post_send([wr]).expect("room");
    }

    /// Keeps the send queue full. Returns GB/s, or millions of messages per second.
    fn stream(&self, what: &str) -> f64 {
        let list = if what.ends_with("_1") { 1 } else { 32 };
        let mut out = Vec::new();
        let (mut posted, mut done, mut counted_from) = (0usize, 0usize, 0usize);
        let mut start = Instant::now();
        let mut warm = false;
        loop {
            while depth_of(what) - (posted - done) >= list.min(depth_of(what)) {
                let room = depth_of(what) - (posted - done);
                let count = room.min(list);
                self.qp.post_send((posted..posted + count).map(|index| self.wr(what, index))).expect("room");
                posted += count;
            }
            done += self.poll(&mut out);
            if !warm && start.elapsed() > WARM_UP {
                (warm, start, counted_from) = (true, Instant::now(), done);
            } else if warm && start.elapsed() > SPAN {
                let messages = (done - counted_from) as f64 / start.elapsed().as_secs_f64();
                return if what.contains("rate") { messages / 1e6 } else { messages * len_of(what) as f64 / 1e9 };
            }
        }
    }

    fn consume(&self, what: &str) {
        let mut out = Vec::new();
        let mut index = DEPTH;
        loop {
            let count = self.poll(&mut out);
            let wrs = (index..index + count).map(|index| RecvWr {
                wr_id: index as u64,
                sgl: [self.sge(offset_of(what, index), len_of(what))].into_iter().collect(),
            });
            if count > 0 {
                self.qp.post_recv(wrs).expect("room");
            }
            index += count;
        }
    }
}

fn len_of(what: &str) -> usize {
    match what {
        _ if what.ends_with("64k") => 64 << 10,
        _ if what.ends_with("1m") => 1 << 20,
        _ => 64,
    }
}

fn offset_of(what: &str, index: usize) -> usize {
    index * len_of(what) % IN_USE_BYTES.max(len_of(what))
}

fn depth_of(what: &str) -> usize {
    if what.contains("rate") { DEPTH } else { 16 }
}

/// Returns the microseconds of one direction.
fn round_trips(mut trip: impl FnMut()) -> f64 {
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        trip();
    }
    let mut times = Vec::with_capacity(1 << 20);
    let start = Instant::now();
    let mut last = start;
    while last.duration_since(start) < SPAN {
        trip();
        let now = Instant::now();
        times.push(now.duration_since(last));
        last = now;
    }
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6 / 2.0
}

/// The processor time of a message that one thread sends and receives: echoes between two
/// devices.
fn send_hop(group: &udp::PortGroup) -> f64 {
    let ends = [1, 2].map(|slot| End::new(testing::open(group, slot, "lo")));
    ends[0].connect(&ends[1].describe());
    ends[1].connect(&ends[0].describe());
    for index in 0..DEPTH {
        ends.iter().for_each(|end| end.post_recv(index, "send_hop"));
    }
    let mut out = Vec::new();
    round_trips(|| {
        for (from, to) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
            from.qp.post_send([SendWr { flags: SendFlags::empty(), ..from.wr("send_hop", 0) }]).expect("room");
            while to.poll(&mut out) == 0 {}
            to.post_recv(0, "send_hop");
        }
    })
}

fn udp_hop() -> f64 {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    sockets[0].connect(sockets[1].local_addr().expect("an address")).expect("an address");
    sockets[1].connect(sockets[0].local_addr().expect("an address")).expect("an address");
    let mut bytes = [0; 80];
    round_trips(|| {
        for (from, to) in [(&sockets[0], &sockets[1]), (&sockets[1], &sockets[0])] {
            from.send(&bytes).expect("loop-back");
            to.recv(&mut bytes).expect("loop-back");
        }
    })
}

/// The same between two plain UDP sockets.
fn baseline(what: &str) -> f64 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let us = socket.local_addr().expect("an address").to_string();
    let mut command = Command::new(env::current_exe().expect("a path"));
    let mut child = command.args(["--peer", what, &us]).stdout(Stdio::piped()).spawn().expect("a second process");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("the peer's line");
    socket.connect(line.trim()).expect("the peer's address");
    socket.set_nonblocking(true).expect("a socket");
    let mut bytes = [0; 80];
    let result = if what == "udp_lat" {
        round_trips(|| {
            socket.send(&bytes).expect("loop-back");
            while socket.recv(&mut bytes).is_err() {}
        })
    } else {
        let start = Instant::now();
        let mut sent = 0u64;
        while start.elapsed() < SPAN {
            sent += u64::from(socket.send(&bytes).is_ok());
        }
        sent as f64 / start.elapsed().as_secs_f64() / 1e6
    };
    child.kill().expect("the peer can be killed");
    child.wait().expect("the peer ends");
    result
}

fn baseline_peer(what: &str, them: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(them).expect("the peer's address");
    socket.set_nonblocking(true).expect("a socket");
    println!("{}", socket.local_addr().expect("an address"));
    std::io::stdout().flush().expect("a pipe");
    let mut bytes = [0; 80];
    loop {
        if socket.recv(&mut bytes).is_ok() && what == "udp_lat" {
            socket.send(&bytes).expect("loop-back");
        }
    }
}
