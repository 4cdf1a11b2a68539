//! `longarm kv serve`: the server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use longarm_kv::{ClusterConfig, DataOptions, FsyncRule, KvLayout, KvServer, TableOptions, WhenFull};
use longarm_rpc::ServerOptions;

use super::door::DoorArgs;
use super::import::{self, ImportChoice};
use super::membership::MembershipArgs;
use super::running::RunningServer;
use super::{memory, target};
use crate::error::Error;
use crate::sizes;

const TABLES: &str = "\
A table is NAME, or NAME with settings behind commas:
  layout=cluster|hopscotch|cuckoo|tree   the layout of its slots; a tree has ranges
  layout=cluster-atomic                  no checksums: the device reads each object at one moment
  max-memory=SIZE                        the bound for its keys and values
  keys=N                                 keys that its index has room for at first
  when-full=evict|refuse                 the rule at the bound
  writable                               clients may PUT by WRITEs alone: they can also destroy the table
  lease=SECONDS                          a client that keeps a key locked for so long is cut off (2)
  secret-file=FILE                       clients must have this secret: 16 random bytes or more
Example: longarm kv serve --table sessions,max-memory=1G --table orders,when-full=refuse,secret-file=orders.key";

/// Serve tables that clients read without this process's help
#[derive(Args, Debug)]
#[command(after_help = TABLES)]
pub(super) struct KvServeArgs {
    /// Address and port to listen on
    #[arg(default_value = "127.0.0.1:7480")]
    listen: String,
    /// A table; several with several options. Without any, one that is called default
    #[arg(short, long = "table", value_name = "NAME[,SETTING…]")]
    tables: Vec<String>,
    /// The bound for keys and values of each table that has none of its own
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::bytes)]
    max_memory: u64,
    /// The layout of each table that has none of its own
    #[arg(long, value_name = "LAYOUT", default_value = "cluster")]
    layout: KvLayout,
    /// Polling threads for requests
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// The core of the polling threads' process
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    /// Let another small process expose the tables' memory. Clients GET from it over packets, also while this process is
    /// stopped, and for 10 minutes after it was killed
    #[arg(long)]
    separate_memory: bool,
    /// Address and port at which Prometheus finds the figures of the tables, by HTTP at /metrics. Health is at /health/live and
    /// /health/ready
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Keep the tables on disk, in this directory
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// When changes are synced to disk: always (no answer leaves before; with --etcd also those of the backups), everysec or no
    #[arg(long, value_name = "RULE", default_value = "everysec", requires = "data")]
    fsync: FsyncRule,
    #[command(flatten)]
    door: DoorArgs,
    /// Put the strings of this RDB file of Redis into a table, which must be empty, before Redis clients come
    #[arg(long, value_name = "FILE", conflicts_with = "cluster")]
    import_rdb: Option<PathBuf>,
    /// The table that --import-rdb fills
    #[arg(long, value_name = "NAME", default_value = "default", requires = "import_rdb")]
    import_table: String,
    #[command(flatten)]
    import: ImportChoice,
    /// All servers of a cluster, each with the address that clients use: they share the 16,384 hash slots evenly, in the order
    /// of their names. The same for each server
    #[arg(long, value_name = "NAME=HOST:PORT,…", requires = "name")]
    cluster: Option<String>,
    /// The name of this server in the cluster
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    membership: MembershipArgs,
}

/// `longarm kv serve`
pub(super) fn run(args: &KvServeArgs) -> Result<(), Error> {
    if let Some(core) = args.core {
        // The threads that the server starts inherit the core.
        crate::baseline::pin_to_core(core);
    }
    let defaults = TableOptions { max_bytes: args.max_memory, layout: args.layout, ..TableOptions::default() };
    let mut builder =
        KvServer::builder().rpc(ServerOptions { threads: args.threads.into(), slots: 64, ..ServerOptions::default() });
    if args.tables.is_empty() {
        builder = builder.table("default", defaults.clone());
    }
    for text in &args.tables {
        let (name, options) = parse_table(text, &defaults)?;
        builder = builder.table(name, options);
    }
    if args.separate_memory {
        builder = builder.separate_memory(memory::command());
    }
    if let Some(path) = &args.data {
        builder = builder.data(DataOptions { fsync: args.fsync, ..DataOptions::new(path) });
    }
    if let (Some(cluster), Some(name)) = (&args.cluster, &args.name) {
        builder = builder.cluster(parse_cluster(cluster)?, name);
    }
    if args.name.is_some() && args.cluster.is_none() && !args.membership.is_wanted() {
        return Err(Error::Usage("--name is the name in a cluster: give --etcd or --cluster".into()));
    }
    let builder = args.membership.apply(builder, args.name.as_deref(), &args.listen)?;
    let server = builder.bind(&args.listen)?;
    println!("listening on {}", server.local_addr());
    if let Some(file) = &args.import_rdb {
        import::into_server(&server, &args.import_table, file, &args.import)?;
    }
    let door = args.door.open(&server)?;
    RunningServer::new(server, door).run(args.metrics.clone())
}

fn parse_cluster(text: &str) -> Result<ClusterConfig, Error> {
    let refused = |why: String| Error::Usage(format!("--cluster {text}: {why}"));
    if text.contains("://") {
        return Err(refused("name all servers here, or give --etcd".into()));
    }
    let member = |part| str::split_once(part, '=').ok_or_else(|| refused(format!("{part:?} is not NAME=HOST:PORT")));
    let members = text.split(',').map(member).collect::<Result<Vec<_>, _>>()?;
    ClusterConfig::fixed(&members).map_err(|error| refused(error.to_string()))
}

fn parse_table(text: &str, defaults: &TableOptions) -> Result<(String, TableOptions), Error> {
    let refused = |why: String| Error::Usage(format!("--table {text}: {why}"));
    let mut parts = text.split(',');
    let (name, mut options) = (parts.next().unwrap_or_default(), defaults.clone());
    for part in parts {
        if part == "writable" {
            options.writable = true;
            continue;
        }
        let Some((setting, value)) = part.split_once('=') else {
            return Err(refused(format!("{part:?} is no setting")));
        };
        match setting {
            "layout" => {
                options.layout = value.parse().map_err(|error: longarm_kv::UnknownLayout| refused(error.to_string()))?
            }
            "max-memory" => options.max_bytes = sizes::bytes(value).map_err(refused)?,
            "keys" => options.keys = value.parse().map_err(|_| refused(format!("{value:?} is no number")))?,
            "lease" => {
                let seconds = value.parse().ok().filter(|seconds| (0.001..=3600.0).contains(seconds));
                let seconds =
                    seconds.ok_or_else(|| refused(format!("{value:?}: a lease has 0.001 to 3600 seconds")))?;
                options.lease = Duration::from_secs_f64(seconds);
            }
            "when-full" if value == "evict" => options.when_full = WhenFull::Evict,
            "when-full" if value == "refuse" => options.when_full = WhenFull::Refuse,
            "when-full" => return Err(refused(format!("{value:?}: a full table can evict or refuse"))),
            "secret-file" => options.secret = Some(target::read_secret(&PathBuf::from(value))?),
            other => return Err(refused(format!("there is no setting {other:?}"))),
        }
    }
    Ok((name.into(), options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_names_all_servers() {
        let config = parse_cluster("b=host2:7480,a=host1:7480").unwrap();
        let names: Vec<&str> = config.members.iter().map(|member| member.id.name.as_str()).collect();
        assert_eq!((names, config.shares[0].primary.as_deref()), (vec!["a", "b"], Some("a")));
        for wrong in ["", "a", "a=", "=h:1", "a=h:1,a=h:2", "a=h:1,", "etcd://host:2379"] {
            assert!(parse_cluster(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tables_have_settings_of_their_own() {
        let parse = |text| parse_table(text, &TableOptions::default());
        assert_eq!(parse("a,layout=tree").unwrap().1.layout, KvLayout::Tree);
        let (name, options) = parse("a,layout=cuckoo,max-memory=8M,keys=99,when-full=refuse").unwrap();
        assert_eq!((name.as_str(), options.layout, options.max_bytes), ("a", KvLayout::Cuckoo, 8 << 20));
        assert_eq!((options.keys, options.when_full), (99, WhenFull::Refuse));
        let (_, options) = parse("a,writable,lease=0.5").unwrap();
        assert_eq!((options.writable, options.lease), (true, Duration::from_millis(500)));
        for wrong in [
            "a,lease=0",
            "a,lease=x",
            "a,layout=heap",
            "a,keys",
            "a,keys=x",
            "a,when-full=x",
            "a,colour=red",
            "a,secret-file=/none",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
