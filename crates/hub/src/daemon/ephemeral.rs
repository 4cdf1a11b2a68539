//! Ephemeral ports for clients that ask for any port.

use super::ports::EphemeralPorts;
use std::fs;
use std::hash::{BuildHasher, RandomState};

/// Linux' ephemeral ports, if the system does not tell its own.
const DEFAULT_RANGE: (u16, u16) = (32768, 60999);

/// The system's ephemeral ports (ip(7), `ip_local_port_range`), from a random one on.
pub(super) fn system_ports() -> EphemeralPorts {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let (low, high) = port_range(&text).unwrap_or(DEFAULT_RANGE);
    EphemeralPorts { range: low..=high, start: random() }
}

/// A number that is hard to predict; not for secrets.
pub(super) fn random() -> u16 {
    RandomState::new().hash_one(0) as u16
}

fn port_range(text: &str) -> Option<(u16, u16)> {
    let (low, high) = text.trim().split_once(char::is_whitespace)?;
    Some((low.parse().ok()?, high.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_the_system_is_read() {
        assert_eq!(port_range("32768\t60999\n"), Some((32768, 60999)));
        assert_eq!(port_range("1024 65535"), Some((1024, 65535)));
        for text in ["", "7", "a\tb", "1\t70000"] {
            assert_eq!(port_range(text), None, "{text:?}");
        }
    }
}
