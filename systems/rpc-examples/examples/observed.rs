//! A server and a client whose calls are counted and timed for Prometheus.
//!
//! `cargo run -p longarm-rpc-examples --example observed [ADDRESS]` prints what Prometheus would read.

use std::time::Duration;

use longarm_rpc::{Client, ClientOptions, Method, Methods, Server, Status};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

const SAY: Method = Method::new("/echo.Echo/Say");
const FAIL: Method = Method::new("/echo.Echo/Fail");
/// Bounds of the histograms, in milliseconds: a call over RDMA takes microseconds.
const BOUNDS_MS: [f64; 8] = [0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 100.0];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The recorder comes first: figures that were made before it are lost.
    let figures = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("duration".into()), &BOUNDS_MS)?
        .install_recorder()?;
    let echo = Methods::new("echo.Echo")
        .direct(SAY, |request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .direct(FAIL, |_, _| Err(Status::not_found("nothing here")));
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let server = Server::builder().add_service(echo)?.bind(address.as_str())?;
    let mut client = Client::connect(server.local_addr(), &ClientOptions::default())?;
    for _ in 0..100 {
        client.call(SAY, b"hello", Duration::from_secs(10))?;
    }
    if let Err(status) = client.call(FAIL, b"", Duration::from_secs(10)) {
        eprintln!("as it should be: {status}");
    }
    // A service would give this to the HTTP server that Prometheus reads from.
    println!("{}", figures.render());
    Ok(())
}
