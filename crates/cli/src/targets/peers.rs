//! Programs of others: iperf3 and UCX over TCP, run as they come from Debian.

use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A process that ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes per second of one iperf3 stream; an explanation if it cannot be had.
pub(super) fn iperf3(address: IpAddr, seconds: u64) -> Result<f64, String> {
    let port = free_port(address)?;
    let (address, port, seconds) = (address.to_string(), port.to_string(), seconds.max(1).to_string());
    let _server = start("iperf3", pinned(1, "iperf3").args(["-s", "-1", "-B", &address, "-p", &port]))?;
    thread::sleep(Duration::from_millis(300));
    let output = pinned(0, "iperf3")
        .args(["-c", &address, "-p", &port, "-t", &seconds, "-J"])
        .output()
        .map_err(|e| format!("iperf3: {e}"))?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("iperf3: {e}"))?;
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.map(|bits| bits / 8.0).ok_or_else(|| format!("iperf3 said: {}", report["error"]))
}

/// Bytes per second of UCX's tag_bw over TCP.
pub(super) fn ucx_tcp(address: IpAddr, size_bytes: u64) -> Result<f64, String> {
    let port = free_port(address)?.to_string();
    let common = ["-t", "tag_bw", "-s", &size_bytes.to_string(), "-n", "20000", "-w", "1000", "-p", &port];
    let ucx = |core| {
        let mut command = pinned(core, "ucx_perftest");
        command.env("UCX_TLS", "tcp,self").env("UCX_WARN_UNUSED_ENV_VARS", "n");
        command
    };
    let _server = start("ucx_perftest", ucx(1).args(common))?;
    thread::sleep(Duration::from_millis(500));
    let output = ucx(0).arg(address.to_string()).args(common).output().map_err(|e| format!("ucx_perftest: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ucx_bandwidth(&text).ok_or_else(|| format!("ucx_perftest said: {}", text.lines().last().unwrap_or("nothing")))
}

/// The overall bandwidth in the last line of figures: MB/s with MB = 2^20.
fn ucx_bandwidth(text: &str) -> Option<f64> {
    let last = text.lines().rfind(|line| line.starts_with("Final:"))?;
    let figures: Vec<f64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    figures.get(5).map(|mib| mib * f64::from(1 << 20))
}

fn pinned(core: usize, program: &str) -> Command {
    crate::baseline::unpin();
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string(), program]);
    command
}

fn start(name: &str, command: &mut Command) -> Result<Server, String> {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map(Server).map_err(|e| format!("{name}: {e}"))
}

fn free_port(address: IpAddr) -> Result<u16, String> {
    let listener = std::net::TcpListener::bind((address, 0)).map_err(|e| e.to_string())?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.port())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_last_line_of_ucx_is_read() {
        let text = "[thread 0]   19000  26.1  26.2  26.2  2385.4 2385.4  38166 38166\n\
                    Final:       20000  26.111  26.250  26.251  2380.95  2380.91  38095  38094\n";
        assert_eq!(super::ucx_bandwidth(text), Some(2380.91 * 1048576.0));
        assert_eq!(super::ucx_bandwidth("no figures"), None);
    }
}
