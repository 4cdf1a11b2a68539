//! One TCP stream of iperf3.

use std::time::Duration;

use super::effort::{ADDRESS, Effort};
use super::sides::{CLIENT, SERVER, ask, free_port, pinned, serve};

pub(super) fn measure(effort: &Effort) -> Result<f64, String> {
    let port = free_port()?;
    let (address, port_word) = (ADDRESS.to_string(), port.to_string());
    let seconds = effort.duration.as_secs().max(1).to_string();
    // iperf3 would take a probing connection for its client, so `serve` reads the kernel's table of sockets.
    let _server = serve(pinned(SERVER, "iperf3").args(["-s", "-1", "-B", &address, "-p", &port_word]), port)?;
    let mut client = pinned(CLIENT, "iperf3");
    client.args(["-c", &address, "-p", &port_word, "-t", &seconds, "-J"]);
    parse(&ask(&mut client, effort.duration * 2 + Duration::from_secs(30))?)
}

/// Received bytes per second.
pub(crate) fn parse(text: &str) -> Result<f64, String> {
    let report: serde_json::Value = serde_json::from_str(text).map_err(|e| format!("iperf3: {e}"))?;
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.map(|bits| bits / 8.0).ok_or_else(|| format!("iperf3 said: {}", report["error"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_bits_are_taken() {
        let text = r#"{"start":{},"end":{"streams":[],"sum_sent":{"bits_per_second":33.0e9},
            "sum_received":{"start":0,"end":1.000156,"bytes":4038590464,"bits_per_second":3.2303e10}}}"#;
        assert_eq!(parse(text), Ok(3.2303e10 / 8.0));
        let refused = r#"{"start":{},"end":{},"error":"unable to connect to server: Connection refused"}"#;
        assert!(parse(refused).unwrap_err().contains("Connection refused"));
    }
}
