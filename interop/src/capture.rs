//! Captures of the wire: tcpdump writes them, this module reads them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that tcpdump may take to open the interface.
const PATIENCE: Duration = Duration::from_secs(15);
const NAP: Duration = Duration::from_millis(20);
/// The time that the last packets may take to reach the file.
const LAST: Duration = Duration::from_millis(300);

/// A running capture; dropping the value ends it.
pub(crate) struct TcpdumpCapture {
    tcpdump: Child,
    file: PathBuf,
}

impl TcpdumpCapture {
    /// Starts to write all RoCE packets of an interface to a file.
    pub(crate) fn start(interface: &str, file: &Path) -> Result<TcpdumpCapture, String> {
        let log = file.with_extension("tcpdump");
        let stderr = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let options = ["-Z", "root", "--immediate-mode", "-U", "-s", "9216", "-B", "65536", "-i", interface, "-w"];
        let mut command = Command::new("tcpdump");
        command.args(options).arg(file).arg("udp port 4791").stdin(Stdio::null()).stderr(stderr);
        let tcpdump = command.spawn().map_err(|e| format!("tcpdump: {e}"))?;
        let capture = TcpdumpCapture { tcpdump, file: file.to_owned() };
        let start = Instant::now();
        while !std::fs::read_to_string(&log).unwrap_or_default().contains("listening on") {
            if start.elapsed() > PATIENCE {
                return Err(format!("tcpdump does not listen: see {}", log.display()));
            }
            std::thread::sleep(NAP);
        }
        Ok(capture)
    }

    /// Ends the capture and returns the file's bytes.
    pub(crate) fn end(self) -> Result<Vec<u8>, String> {
        std::thread::sleep(LAST);
        let file = self.file.clone();
        drop(self);
        std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))
    }
}

impl Drop for TcpdumpCapture {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.tcpdump.id().to_string()]).status();
        let _ = self.tcpdump.wait();
    }
}

/// The Ethernet frames of a little-endian pcap file.
pub(crate) fn frames(pcap: &[u8]) -> Result<Vec<&[u8]>, String> {
    const HEADER_LEN: usize = 24;
    const RECORD_HEADER_LEN: usize = 16;
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if !word(pcap, 0).is_some_and(|magic| [0xa1b2_c3d4, 0xa1b2_3c4d].contains(&magic)) {
        return Err("not a little-endian pcap file".into());
    }
    let mut frames = Vec::new();
    let mut rest = pcap.get(HEADER_LEN..).unwrap_or_default();
    while let Some((header, after)) = rest.split_at_checked(RECORD_HEADER_LEN) {
        let len = word(header, 8).unwrap_or_default() as usize;
        let Some((frame, next)) = after.split_at_checked(len) else { break };
        frames.push(frame);
        rest = next;
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_ends_early_gives_the_frames_before() {
        let mut pcap = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        pcap.resize(24, 0);
        for (stated, there) in [(3_u32, 3_usize), (9, 2)] {
            pcap.extend_from_slice(&[0; 8]);
            pcap.extend_from_slice(&stated.to_le_bytes());
            pcap.extend_from_slice(&stated.to_le_bytes());
            pcap.extend(std::iter::repeat_n(7, there));
        }
        assert_eq!(frames(&pcap), Ok(vec![&[7, 7, 7][..]]));
        assert!(frames(b"no").is_err());
    }
}
