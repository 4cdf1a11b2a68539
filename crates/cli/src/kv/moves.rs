//! `longarm kv rebalance` and `longarm kv drain`: orders to move slots, and their progress.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use longarm_kv::{ClusterConfig, ClusterOrder, KvCluster, KvError, KvOptions};

use super::target;
use crate::error::Error;
use crate::sizes;

/// The time between two lines of progress.
const LOOK: Duration = Duration::from_millis(500);

/// An order without any effect is given again after this time.
const FORGOTTEN: Duration = Duration::from_secs(3);

/// A cluster that takes orders.
#[derive(Args, Debug)]
struct OrderTarget {
    /// Addresses and ports of servers of the cluster, with commas between: one that answers is enough
    #[arg(short, long, value_name = "HOST:PORT,...", default_value = "127.0.0.1:7480")]
    server: String,
    /// File of the secret that the cluster's members have
    #[arg(long, value_name = "FILE")]
    cluster_secret_file: Option<PathBuf>,
    /// Do not wait until it is done
    #[arg(long)]
    no_wait: bool,
    /// The time that a server has for its answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = sizes::seconds)]
    timeout: Duration,
}

/// Move slots between the servers of a cluster until all serve equally many, while they are used
#[derive(Args, Debug)]
pub(super) struct KvRebalanceArgs {
    #[command(flatten)]
    target: OrderTarget,
}

/// Move all slots of a server to the others, while they are used. Then it can be stopped without anybody's notice
#[derive(Args, Debug)]
pub(super) struct KvDrainArgs {
    /// The name of the server
    name: String,
    /// Let it have slots again
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    target: OrderTarget,
}

/// `longarm kv rebalance`
pub(super) fn rebalance(args: &KvRebalanceArgs) -> Result<(), Error> {
    give(&args.target, &ClusterOrder::Rebalance, |config| config.moving_slots() == 0 && config.balance().is_empty())
}

/// `longarm kv drain`
pub(super) fn drain(args: &KvDrainArgs) -> Result<(), Error> {
    let member = args.name.clone();
    if args.undo {
        return give(&args.target, &ClusterOrder::Undrain { member }, |config| !config.is_draining(&args.name));
    }
    let is_empty = |config: &ClusterConfig| config.is_draining(&args.name) && config.parts_of(&args.name) == 0;
    give(&args.target, &ClusterOrder::Drain { member }, is_empty)
}

/// Gives an order, and shows the progress until it is done.
fn give(target: &OrderTarget, order: &ClusterOrder, is_done: impl Fn(&ClusterConfig) -> bool) -> Result<(), Error> {
    let servers: Vec<&str> = target.server.split(',').collect();
    let secret = target.cluster_secret_file.as_deref().map(target::read_secret).transpose()?;
    let options = KvOptions { timeout: target.timeout, ..KvOptions::default() };
    let mut cluster = KvCluster::open(&servers, "", options)?;
    cluster.order(order, secret.as_ref())?;
    if target.no_wait {
        return Ok(());
    }
    let (mut shown, mut ordered) = (String::new(), Instant::now());
    loop {
        std::thread::sleep(LOOK);
        // A server may just be going. The others tell the next time.
        let _ = cluster.refresh();
        let config = cluster.config().ok_or_else(|| KvError::Cluster("no configuration".into()))?;
        let (is_over, is_moving, text) = (is_done(config), config.moving_slots() > 0, progress(config));
        if text != shown {
            crate::output::line(format_args!("{text}"));
            shown = text;
        }
        if is_over {
            crate::output::line(format_args!("done"));
            return Ok(());
        }
        if is_moving {
            ordered = Instant::now();
        } else if ordered.elapsed() > FORGOTTEN {
            // The server that took the order may have gone with it.
            let _ = cluster.order(order, secret.as_ref());
            ordered = Instant::now();
        }
    }
}

/// A line: how many slots are on their way, and how many each server serves.
fn progress(config: &ClusterConfig) -> String {
    let slots = |name: &str| -> usize {
        let own = config.shares.iter().filter(|share| share.primary.as_deref() == Some(name));
        own.map(|share| share.slots().count()).sum()
    };
    let member = |name: &String| {
        let draining = if config.is_draining(name) { ", draining" } else { "" };
        format!("{name} {} (parts of {} shares{draining})", slots(name), config.parts_of(name))
    };
    let members: Vec<String> = config.members.iter().map(|one| member(&one.id.name)).collect();
    format!("epoch {}: {} slots on their way; {}", config.epoch, config.moving_slots(), members.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_tells_slots_and_parts() {
        let mut config = ClusterConfig::fixed(&[("a", "h:1"), ("b", "h:2")]).unwrap();
        config.draining.push("b".into());
        let words = "epoch 1: 0 slots on their way; a 8192 (parts of 1 shares), b 8192 (parts of 1 shares, draining)";
        assert_eq!(progress(&config), words);
    }
}
