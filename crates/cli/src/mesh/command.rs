//! The first process: it starts the members and adds up their results.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::Args;

use super::{MemberReport, MemberRequest, endpoint_index};
use crate::error::Error;
use crate::report;

/// Let several processes all send to each other, and add up their throughput
#[derive(Args, Debug)]
pub(crate) struct MeshArgs {
    /// Number of processes
    #[arg(short, long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=200))]
    processes: u32,
    /// Bytes per message
    #[arg(short, long, default_value_t = 4096)]
    size: u32,
    /// Messages in flight from each process to each other
    #[arg(short, long, default_value_t = 8)]
    depth: u32,
    /// Seconds per run
    #[arg(short = 'D', long, default_value_t = 1.0)]
    seconds: f64,
    /// Number of runs, each with new processes
    #[arg(short, long, default_value_t = 1)]
    runs: u32,
    /// The address to use
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Print messages per second and nothing else
    #[arg(long)]
    bare: bool,
}

/// `longarm mesh`
pub(crate) fn run(args: &MeshArgs) -> Result<(), Error> {
    let (mut failed, mut last) = (0, None);
    for number in 1..=args.runs {
        match once(args) {
            Ok((rate, _)) if args.bare => println!("{rate}"),
            Ok((rate, resent)) => println!(
                "run {number}: {}, {}; {resent} packets sent again",
                report::count_per_second(rate),
                report::bytes_per_second(rate * f64::from(args.size))
            ),
            Err(problem) => {
                eprintln!("run {number}: {problem}");
                failed += 1;
                last = Some(problem);
            }
        }
    }
    if args.runs > 1 && !args.bare {
        println!("{failed} of {} runs failed", args.runs);
    }
    last.map_or(Ok(()), Err)
}

/// Messages per second of all members together, and retransmitted packets.
fn once(args: &MeshArgs) -> Result<(f64, u64), Error> {
    let mut members = (0..args.processes).map(|_| Member::start(args)).collect::<Result<Vec<_>, _>>()?;
    let mut endpoints = Vec::new();
    for member in &mut members {
        match member.receive()? {
            MemberReport::Endpoints(infos) => endpoints.push(infos),
            other => return Err(unexpected(&other)),
        }
    }
    for (index, member) in members.iter_mut().enumerate() {
        let of_others = endpoints.iter().enumerate().filter(|(other, _)| *other != index);
        let peers = of_others.map(|(other, infos)| infos[endpoint_index(index, other)].clone()).collect();
        member.send(&MemberRequest::Connect(peers))?;
    }
    for member in &mut members {
        let MemberReport::Connected = member.receive()? else {
            return Err(Error::Peer("a member is not connected".into()));
        };
    }
    let milliseconds = (args.seconds.clamp(0.01, 3600.0) * 1e3) as u64;
    members.iter_mut().try_for_each(|member| member.send(&MemberRequest::Run { milliseconds }))?;
    let (mut rate, mut resent) = (0.0, 0);
    for member in &mut members {
        match member.receive()? {
            MemberReport::Done { messages, seconds, resent_packets } => {
                rate += messages as f64 / seconds;
                resent += resent_packets;
            }
            other => return Err(unexpected(&other)),
        }
    }
    members.iter_mut().try_for_each(|member| member.send(&MemberRequest::End))?;
    members.iter_mut().try_for_each(|member| member.child.wait().map(drop))?;
    Ok((rate, resent))
}

fn unexpected(report: &MemberReport) -> Error {
    match report {
        MemberReport::Failed(why) => Error::Peer(format!("a member failed: {why}")),
        other => Error::Peer(format!("a member sent {other:?}")),
    }
}

/// A process of the mesh; dropping the value ends it.
struct Member {
    child: Child,
    orders: ChildStdin,
    reports: BufReader<ChildStdout>,
}

impl Member {
    fn start(args: &MeshArgs) -> Result<Member, Error> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["mesh-member", "--address", &args.address.to_string()])
            .args(["--others", &(args.processes - 1).to_string(), "--size", &args.size.to_string()])
            .args(["--depth", &args.depth.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, reports) = pipes.ok_or_else(|| Error::Peer("a member has no pipes".into()))?;
        Ok(Member { child, orders, reports: BufReader::new(reports) })
    }

    fn send(&mut self, order: &MemberRequest) -> Result<(), Error> {
        let line = serde_json::to_string(order).map_err(std::io::Error::from)?;
        Ok(writeln!(self.orders, "{line}")?)
    }

    fn receive(&mut self) -> Result<MemberReport, Error> {
        let mut line = String::new();
        if self.reports.read_line(&mut line)? == 0 {
            return Err(Error::Peer("a member has ended".into()));
        }
        serde_json::from_str(&line).map_err(|e| Error::Peer(format!("a member sent {}: {e}", line.trim())))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_a_place_for_each_other() {
        for members in 2..6 {
            for one in 0..members {
                let mut places: Vec<_> =
                    (0..members).filter(|other| *other != one).map(|other| endpoint_index(other, one)).collect();
                places.sort_unstable();
                assert_eq!(places, (0..members - 1).collect::<Vec<_>>());
            }
        }
    }
}
