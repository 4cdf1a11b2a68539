//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use longarm_rpc::Way;

use super::case::{BenchCase, BenchMode};
use super::switches::BenchSwitches;
use crate::error::Error;
use crate::perf;
use crate::rpc::proof::ClientProof;

/// The longest request and the longest reply.
const LONGEST: u32 = 8 << 20;

/// Measure calls: latency, rate and memory of each way, by default on this host with a server process of its own
#[derive(Args, Debug)]
pub(crate) struct RpcBenchArgs {
    /// Ways, with commas: ring, herd, datagram, immediate, fetch; or `all`
    #[arg(short, long, default_value = "all")]
    way: String,
    /// Quantity to measure [default: latency]
    #[arg(short, long, value_enum)]
    mode: Option<BenchMode>,
    /// Bytes of each request; several with commas, with suffix K or M
    #[arg(short, long, default_value = "32")]
    size: String,
    /// Bytes of each reply [default: those of the request]
    #[arg(short, long)]
    reply: Option<String>,
    /// Calls outstanding for each client, 1 to 64 [default: 32, latency: 1]
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..=64))]
    depth: Option<u16>,
    /// Clients; several numbers with commas. Latency: all are connected, and the first one calls
    #[arg(short, long, default_value = "1")]
    clients: String,
    /// Threads that drive the clients
    #[arg(short = 'T', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) threads: u32,
    /// Rate: threads that share each client, and with it a queue pair
    #[arg(long, default_value_t = 1, value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..=64))]
    share: u32,
    /// Polling threads of the server; more than one are not pinned
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) server_threads: u32,
    /// Seconds for each measurement
    #[arg(short = 'D', long, default_value_t = 1.0)]
    seconds: f64,
    /// End each measurement after this many calls, if that is sooner
    #[arg(long)]
    calls: Option<u64>,
    /// Latency: calls between two reads of the clock; their mean is one sample
    #[arg(long, default_value_t = 1, value_name = "CALLS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    together: u32,
    /// Load: percent of the rate that the way reaches, which is measured first
    #[arg(long, default_value_t = 70, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    load: u32,
    /// Also measure the server's memory for each of this many clients that do nothing
    #[arg(long, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    idle: Option<u32>,
    /// Run only the server, at this address and port
    #[arg(short, long, value_name = "HOST:PORT", conflicts_with = "connect")]
    pub(super) listen: Option<String>,
    /// Server of another host, which runs `longarm rpc bench --listen` [default: a new process on this host]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) connect: Option<String>,
    /// Address to use on this host [default: 127.0.0.1, or that of the system's RDMA device]
    #[arg(long, conflicts_with = "connect")]
    pub(super) address: Option<std::net::IpAddr>,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(super) json: bool,
    /// Draw the result over the number of clients, or over the size, to this SVG file
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// Let the scheduler place the threads [default: each on its own core]
    #[arg(long)]
    pub(super) unpinned: bool,
    #[command(flatten)]
    pub(super) switches: BenchSwitches,
    #[command(flatten)]
    pub(super) proof: ClientProof,
}

impl RpcBenchArgs {
    pub(super) fn mode(&self) -> BenchMode {
        self.mode.unwrap_or(BenchMode::Latency)
    }

    /// All measurements: for each way each size, for each size each number of clients.
    ///
    /// # Errors
    /// If the arguments cannot be measured.
    pub(super) fn plan(&self) -> Result<Vec<BenchCase>, Error> {
        let (ways, sizes, clients) = (self.ways()?, self.sizes(&self.size, "--size")?, self.clients()?);
        let reply = self.reply.as_ref().map(|text| self.sizes(text, "--reply")).transpose()?;
        let reply = match reply.as_deref() {
            None => None,
            Some([one]) => Some(*one),
            Some(_) => return Err(Error::Usage("--reply: give one size".into())),
        };
        self.check(&sizes, &clients)?;
        if reply.is_some_and(|reply| sizes.iter().any(|size| *size < 4 && *size != reply)) {
            return Err(Error::Usage("--reply: the request tells the length of the reply, in 4 bytes".into()));
        }
        let mut plan = Vec::new();
        for way in &ways {
            for size_bytes in &sizes {
                plan.extend(clients.iter().map(|clients| self.case(*way, *size_bytes, reply, *clients)));
            }
        }
        Ok(plan)
    }

    /// One case for each way, whose clients do nothing.
    pub(super) fn idle_cases(&self, plan: &[BenchCase]) -> Vec<BenchCase> {
        let mut cases: Vec<BenchCase> = Vec::new();
        for case in plan.iter().filter(|_| self.idle.is_some()) {
            if cases.iter().all(|known| known.way != case.way) {
                cases.push(BenchCase { clients: self.idle.unwrap_or(1), ..case.clone() });
            }
        }
        cases
    }

    fn case(&self, way: Way, size_bytes: u32, reply: Option<u32>, clients: u32) -> BenchCase {
        let mode = self.mode();
        BenchCase {
            way,
            mode,
            size_bytes,
            reply_bytes: reply.unwrap_or(size_bytes),
            clients,
            depth: self.depth.unwrap_or(if mode == BenchMode::Latency { 1 } else { 32 }),
            threads: if self.share > 1 { self.share * clients } else { self.threads.min(clients) },
            share: self.share,
            duration: Duration::from_secs_f64(self.seconds.clamp(0.01, 3600.0)),
            calls: self.calls,
            together: self.together,
            load_percent: self.load,
        }
    }

    fn check(&self, sizes: &[u32], clients: &[u32]) -> Result<(), Error> {
        let refuse = |why: &str| Err(Error::Usage(why.into()));
        if self.mode() == BenchMode::Latency && self.depth.is_some_and(|depth| depth > 1) {
            return refuse("--depth: latency is that of one call at a time; `--mode rate` has several");
        }
        if self.mode() == BenchMode::Latency && self.threads > 1 {
            return refuse("--threads: one thread measures latency");
        }
        if let Some(why) = self.objection_to_share(clients) {
            return refuse(why);
        }
        if self.mode() != BenchMode::Latency && self.together > 1 {
            return refuse("--together is for latency");
        }
        if self.plot.is_some() && sizes.len() < 2 && clients.len() < 2 {
            return refuse("--plot: give several --clients or several --size, with commas");
        }
        if self.plot.is_some() && sizes.len() > 1 && clients.len() > 1 {
            return refuse("--plot: give several --clients or several --size, not both");
        }
        if self.calls == Some(0) {
            return refuse("--calls: give at least 1");
        }
        if !self.seconds.is_finite() {
            return refuse("--seconds: give a number");
        }
        Ok(())
    }

    /// The reason why the clients cannot be shared by threads, if there is one.
    fn objection_to_share(&self, clients: &[u32]) -> Option<&'static str> {
        let depth = u32::from(self.depth.unwrap_or(32));
        match self.share {
            1 => None,
            _ if self.mode() != BenchMode::Rate => Some("--share is for the rate"),
            _ if self.threads > 1 => Some("--share: there are as many threads for each client; leave out --threads"),
            share if share * depth > 64 => {
                Some("--share: the threads of a client have 64 calls together; give a smaller --depth")
            }
            share if clients.iter().any(|clients| clients * share > 256) => Some("--share: 256 threads at most"),
            _ => None,
        }
    }

    fn ways(&self) -> Result<Vec<Way>, Error> {
        if self.way == "all" {
            return Ok(Way::ALL.to_vec());
        }
        let one = |word: &str| word.trim().parse::<Way>().map_err(|e| Error::Usage(format!("--way: {e}, or all")));
        self.way.split(',').map(one).collect()
    }

    fn sizes(&self, text: &str, option: &str) -> Result<Vec<u32>, Error> {
        let sizes = perf::sizes(text).map_err(|_| {
            Error::Usage(format!("{option} {text}: give bytes such as 32, 4K or 1M, several with commas"))
        })?;
        match sizes.iter().find(|size| **size > LONGEST) {
            Some(size) => Err(Error::Usage(format!("{option} {size}: a message has at most {LONGEST} bytes"))),
            None => Ok(sizes),
        }
    }

    fn clients(&self) -> Result<Vec<u32>, Error> {
        let one = |word: &str| word.trim().parse().ok().filter(|clients| (1..=10_000).contains(clients));
        let clients: Option<Vec<u32>> = self.clients.split(',').map(one).collect();
        clients.ok_or_else(|| Error::Usage(format!("--clients {}: give numbers from 1 to 10000", self.clients)))
    }
}
