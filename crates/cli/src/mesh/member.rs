//! A process of the mesh.

use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use clap::Args;
use device::{Completion, SendFlags};

use super::{MemberReport, MemberRequest};
use crate::error::Error;
use crate::perf::{self, EndpointInfo, Endpoints, Op, Shape, TestTransport, work_request};

/// One process of `longarm mesh`
#[derive(Args, Debug)]
pub(crate) struct MemberArgs {
    #[arg(long)]
    address: IpAddr,
    /// Number of other members
    #[arg(long)]
    others: u32,
    #[arg(long)]
    size: u32,
    #[arg(long)]
    depth: u32,
}

/// The longest wait for outstanding messages at the end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Completions per poll.
const POLLED: usize = 64;

/// `longarm mesh-member`
pub(crate) fn member(args: &MemberArgs) -> Result<(), Error> {
    let mut orders = BufReader::new(std::io::stdin()).lines();
    let outcome = serve(args, &mut orders);
    if let Err(problem) = &outcome {
        send(&MemberReport::Failed(problem.to_string()))?;
    }
    outcome
}

fn serve(args: &MemberArgs, orders: &mut (impl Iterator<Item = std::io::Result<String>> + Send)) -> Result<(), Error> {
    let device = perf::open(args.address)?;
    let shape = Shape {
        transport: TestTransport::Rc,
        qps: args.others,
        depth: args.depth,
        region_bytes: 2 * args.size as usize,
        path_mtu: None,
    };
    let endpoints = Endpoints::new(&device, args.address, shape)?;
    send(&MemberReport::Endpoints(endpoints.infos()))?;
    let MemberRequest::Connect(peers) = receive(orders)? else { return Err(unexpected()) };
    endpoints.connect(&peers)?;
    for index in 0..peers.len() {
        endpoints.post_recvs(index, args.depth * 2, u64::from(args.size), args.size)?;
    }
    send(&MemberReport::Connected)?;
    let MemberRequest::Run { milliseconds } = receive(orders)? else { return Err(unexpected()) };
    let mut traffic = Traffic { args, endpoints: &endpoints, peers: &peers, sent: 0, outstanding: 0, goes_on: true };
    let (messages, seconds) = traffic.run(Duration::from_millis(milliseconds))?;
    let resent_packets = endpoints.qps.iter().map(|qp| qp.counters().retransmitted_packets).sum();
    send(&MemberReport::Done { messages, seconds, resent_packets })?;
    // The other members need this member's receives until they are done.
    std::thread::scope(|scope| {
        let end = scope.spawn(|| receive(orders));
        while !end.is_finished() {
            traffic.step(&mut Vec::with_capacity(POLLED))?;
        }
        Ok(())
    })
}

/// Sends the messages of one member.
struct Traffic<'a> {
    args: &'a MemberArgs,
    endpoints: &'a Endpoints,
    peers: &'a [EndpointInfo],
    sent: u64,
    outstanding: u32,
    goes_on: bool,
}

impl Traffic<'_> {
    /// Sends for `time`, then waits for outstanding messages.
    fn run(&mut self, time: Duration) -> Result<(u64, f64), Error> {
        let (start, mut completions) = (Instant::now(), Vec::with_capacity(POLLED));
        for index in 0..self.peers.len() {
            (0..self.args.depth).try_for_each(|_| self.post(index))?;
        }
        while start.elapsed() < time {
            self.step(&mut completions)?;
        }
        let figures = (self.sent, start.elapsed().as_secs_f64());
        self.goes_on = false;
        while self.outstanding > 0 {
            self.step(&mut completions)?;
            if start.elapsed() > time + PATIENCE {
                return Err(Error::Silence(PATIENCE));
            }
        }
        Ok(figures)
    }

    fn step(&mut self, completions: &mut Vec<Completion>) -> Result<(), Error> {
        self.endpoints.send_cq.poll(completions, POLLED)?;
        for completion in completions.drain(..) {
            let index = self.endpoints.check(completion)?.wr_id as usize;
            self.outstanding -= 1;
            self.sent += 1;
            if self.goes_on {
                self.post(index)?;
            }
        }
        self.endpoints.recv_cq.poll(completions, POLLED)?;
        for completion in completions.drain(..) {
            let index = self.endpoints.check(completion)?.wr_id as usize;
            self.endpoints.post_recvs(index, 1, u64::from(self.args.size), self.args.size)?;
        }
        Ok(())
    }

    fn post(&mut self, index: usize) -> Result<(), Error> {
        let mut wr = work_request(self.endpoints, &self.peers[index], Op::Send, self.args.size, SendFlags::SIGNALED);
        wr.wr_id = index as u64;
        self.endpoints.qps[index].post_send([wr])?;
        self.outstanding += 1;
        Ok(())
    }
}

fn send(report: &MemberReport) -> Result<(), Error> {
    let line = serde_json::to_string(report).map_err(std::io::Error::from)?;
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn receive(orders: &mut impl Iterator<Item = std::io::Result<String>>) -> Result<MemberRequest, Error> {
    let line = orders.next().ok_or_else(|| Error::Peer("the first process of the mesh is gone".into()))??;
    serde_json::from_str(&line).map_err(|e| Error::Peer(format!("an invalid order: {e}")))
}

fn unexpected() -> Error {
    Error::Peer("an unexpected order".into())
}
