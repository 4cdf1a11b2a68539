//! Values of socket options, as bytes.

use std::time::Duration;

use device::AddressVector;

use crate::errno::{Errno, Result};

/// An `int`; longer values are cut.
pub(crate) fn int(value: &[u8]) -> Result<i32> {
    value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::INVAL)
}

/// An `int` that is zero or not.
pub(crate) fn boolean(value: &[u8]) -> Result<bool> {
    int(value).map(|value| value != 0)
}

/// A `struct timeval`; zero waits forever.
pub(crate) fn time(value: &[u8]) -> Result<Option<Duration>> {
    let (Some(seconds), Some(micros)) = (value.first_chunk::<8>(), value.get(8..).and_then(|rest| rest.first_chunk()))
    else {
        return Err(Errno::INVAL);
    };
    let micros = u64::try_from(i64::from_ne_bytes(*micros)).ok().filter(|micros| *micros < 1_000_000);
    let micros = micros.ok_or(Errno(libc::EDOM))?;
    let seconds = u64::try_from(i64::from_ne_bytes(*seconds)).unwrap_or(0);
    let time = Duration::from_secs(seconds) + Duration::from_micros(micros);
    Ok((!time.is_zero()).then_some(time))
}

pub(crate) fn of_int(value: i32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

pub(crate) fn of_bool(value: bool) -> Vec<u8> {
    of_int(value.into())
}

pub(crate) fn of_time(time: Option<Duration>) -> Vec<u8> {
    let time = time.unwrap_or_default();
    let parts = [time.as_secs() as i64, i64::from(time.subsec_micros())];
    parts.iter().flat_map(|part| part.to_ne_bytes()).collect()
}

/// `struct ibv_path_data`: a path record (IB specification 15.2.5.16) behind two words of flags.
pub(crate) fn of_path(path: &AddressVector) -> Vec<u8> {
    const USUAL: u32 = 0x2f; // GMP, primary, bidirectional
    const EXACTLY: u8 = 2 << 6;
    let mut out = Vec::with_capacity(72);
    out.extend_from_slice(&USUAL.to_ne_bytes());
    out.extend_from_slice(&[0; 4 + 8]);
    out.extend_from_slice(&path.destination.0);
    out.extend_from_slice(&path.source.0);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(path.flow_label << 8 | u32::from(path.hop_limit)).to_be_bytes());
    out.extend_from_slice(&[path.traffic_class, 1 << 7 | 1, 0xff, 0xff, 0, 0]);
    out.extend_from_slice(&[EXACTLY | 5, EXACTLY, EXACTLY]);
    out.resize(72, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        for seconds in [0u64, 3] {
            let time_in = (seconds > 0).then(|| Duration::from_secs(seconds) + Duration::from_micros(7));
            assert_eq!(time(&of_time(time_in)), Ok(time_in));
        }
        assert_eq!(int(&of_int(-5)), Ok(-5));
        assert_eq!(boolean(&of_bool(true)), Ok(true));
        assert_eq!(int(&[1]), Err(Errno::INVAL));
        assert_eq!(time(&[0; 15]), Err(Errno::INVAL));
        assert_eq!(time(&[0xff; 16]), Err(Errno(libc::EDOM)));
    }

    #[test]
    fn a_path_is_of_its_size() {
        let gid = device::Gid::from(std::net::IpAddr::from([10, 0, 0, 1]));
        let path = of_path(&AddressVector::new(gid, gid));
        assert_eq!(path.len(), 72);
        assert_eq!(path[16..32], path[32..48]);
    }
}
