//! `longarm kv status`: a table on one server, or on all servers of a cluster.

use clap::Args;
use longarm_kv::{ClusterMember, KvCluster, KvError, KvOptions, KvTable, TableFigures};

use super::target::TableTarget;
use crate::error::Error;
use crate::report::size_rounded;

/// Show a table on each server of its cluster, or on its one server: slots, keys, memory. Fails if a server does not answer
#[derive(Args, Debug)]
pub(super) struct KvStatusArgs {
    #[command(flatten)]
    target: TableTarget,
}

/// `longarm kv status`
pub(super) fn run(args: &KvStatusArgs) -> Result<(), Error> {
    let (target, options) = (&args.target, args.target.options()?);
    let cluster = match KvCluster::open(&[&target.server], &target.table, options.clone()) {
        Ok(cluster) => cluster,
        // A server without a cluster has no such service; one that is away answers neither.
        Err(_) => {
            println!("{}", line(&target.server, "all slots", &figures(&target.server, &target.table, options)?));
            return Ok(());
        }
    };
    let Some(config) = cluster.config() else { return Err(KvError::Cluster("no configuration".into()).into()) };
    println!("epoch {}, {} servers", config.epoch, config.members.len());
    let mut silent = Vec::new();
    for ClusterMember { id, address } in &config.members {
        let shares: Vec<String> = config.shares_of(id).map(|share| format!("{}-{}", share.from, share.to)).collect();
        let (name, slots) = (format!("{} {address}", id.name), format!("slots {}", shares.join(",")));
        match figures(address, &target.table, options.clone()) {
            Ok(figures) => println!("{}", line(&name, &slots, &figures)),
            Err(error) => {
                println!("{name}: {slots}, {error}");
                silent.push(id.name.clone());
            }
        }
    }
    match silent.is_empty() {
        true => Ok(()),
        false => Err(Error::Usage(format!("no answer from {}", silent.join(", ")))),
    }
}

fn figures(server: &str, table: &str, options: KvOptions) -> Result<TableFigures, KvError> {
    KvTable::open(server, table, KvOptions { get: longarm_kv::GetWay::Rpc, ..options })?.figures()
}

fn line(server: &str, slots: &str, figures: &TableFigures) -> String {
    let TableFigures { keys, used_bytes, max_bytes, clients, evicted, expired, refused_full, .. } = figures;
    format!(
        "{server}: {slots}, {keys} keys, {} of {}, {clients} clients, {evicted} evicted, {expired} expired, {refused_full} \
         refused as the memory was full",
        size_rounded(*used_bytes),
        size_rounded(*max_bytes),
    )
}
