//! `longarm memory serve`: the server.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use remote::{MemoryServer, MemoryServerFigures, MemoryServerOptions, TenantOptions};

use super::read_secret;
use crate::error::Error;
use crate::{metrics, sizes};

const TENANTS: &str = "\
A tenant is NAME, or NAME with settings behind commas:
  max-memory=SIZE     the bound of all its regions
  max-regions=N       regions at a time (1024)
  secret-file=FILE    the owner's secret: 16 random bytes or more. Without one, everybody owns the tenant's regions
Example: longarm memory serve --size 8G --tenant lab,max-memory=4G,secret-file=lab.key";

/// Serve memory in named regions
#[derive(Args, Debug)]
#[command(after_help = TENANTS)]
pub(super) struct MemoryServeArgs {
    /// Address and port to listen on
    #[arg(default_value = "127.0.0.1:7490")]
    listen: String,
    /// The memory of all regions together
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = sizes::bytes)]
    size: u64,
    /// A tenant; several with several options. Without any, one that is called default
    #[arg(short, long = "tenant", value_name = "NAME[,SETTING…]")]
    tenants: Vec<String>,
    /// A client that says nothing for so long has ended: its keys are dead, and its pieces go back
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = sizes::seconds)]
    lease: Duration,
    /// Address and port at which Prometheus finds the server's figures, by HTTP at /metrics
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
}

/// `longarm memory serve`
pub(super) fn run(args: &MemoryServeArgs) -> Result<(), Error> {
    let options = MemoryServerOptions { memory_bytes: args.size, lease: args.lease, ..MemoryServerOptions::default() };
    let mut builder = MemoryServer::builder(options);
    for text in &args.tenants {
        let (name, tenant) = parse_tenant(text)?;
        builder = builder.tenant(name, tenant);
    }
    let server = builder.bind(&args.listen)?;
    println!("listening on {}", server.local_addr());
    match &args.metrics {
        Some(address) => metrics::serve(address, || text(&server.figures()), || Ok(())),
        None => {
            server.wait();
            Ok(())
        }
    }
}

fn parse_tenant(text: &str) -> Result<(String, TenantOptions), Error> {
    let refused = |why: String| Error::Usage(format!("--tenant {text}: {why}"));
    let mut parts = text.split(',');
    let (name, mut options) = (parts.next().unwrap_or_default(), TenantOptions::default());
    for part in parts {
        match part.split_once('=') {
            Some(("max-memory", value)) => options.max_bytes = sizes::bytes(value).map_err(refused)?,
            Some(("max-regions", value)) => {
                options.max_regions = value.parse().map_err(|_| refused(format!("{value:?} is no number")))?;
            }
            Some(("secret-file", value)) => options.secret = Some(read_secret(Path::new(value))?),
            _ => return Err(refused(format!("{part:?} is no setting"))),
        }
    }
    Ok((name.into(), options))
}

fn text(figures: &MemoryServerFigures) -> String {
    let all = [
        ("bytes", "gauge", "Memory of the server", figures.memory_bytes),
        ("used_bytes", "gauge", "Memory in regions", figures.used_bytes),
        ("regions", "gauge", "Regions of all tenants", figures.regions),
        ("clients", "gauge", "Clients with a lease", figures.clients),
        ("expired_clients_total", "counter", "Clients whose lease has ended", figures.expired),
        ("refused_total", "counter", "Requests that were refused", figures.refused),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in all {
        let name = format!("longarm_memory_{name}");
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_have_settings_of_their_own() {
        let (name, options) = parse_tenant("lab,max-memory=8M,max-regions=9").unwrap();
        assert_eq!((name.as_str(), options.max_bytes, options.max_regions), ("lab", 8 << 20, 9));
        for wrong in ["lab,max-memory", "lab,max-regions=x", "lab,colour=red", "lab,secret-file=/none"] {
            assert!(parse_tenant(wrong).is_err(), "{wrong}");
        }
    }
}
