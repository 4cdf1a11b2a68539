//! Reads the output of programs in the guest of a virtual machine. `longarm-interop --speed` writes
//! one file for each run: `DRIVER-PROGRAM-BYTES-ROUND`.

use std::path::Path;

use super::goals::GUEST_WORK;
use super::measure::{Contender, Measure, MessagePath, VmDriver};
use super::results::Results;
use super::tools::parse_perftest;

const DRIVERS: [(&str, VmDriver); 4] = [
    ("longarm", VmDriver::Longarm(MessagePath::Host)),
    ("longarm_wire", VmDriver::Longarm(MessagePath::Wire)),
    ("rxe", VmDriver::Rxe),
    ("siw", VmDriver::Siw),
];

/// Reads all files of a directory.
pub(super) fn load(directory: &Path, results: &mut Results) -> std::io::Result<()> {
    let mut files: Vec<_> = std::fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    for file in files {
        let Some(measure) = file.file_name().to_str().and_then(measure) else { continue };
        let said = String::from_utf8_lossy(&std::fs::read(file.path())?).into_owned();
        match parse_perftest(&said, measure.quantity) {
            Ok(figure) if figure.is_finite() && figure > 0.0 => results.add(measure, figure),
            Ok(figure) => results.fail(measure, format!("the figure is {figure}")),
            Err(why) => results.fail(measure, why),
        }
    }
    Ok(())
}

/// The measurement that a file's name stands for.
fn measure(name: &str) -> Option<Measure> {
    let mut parts = name.split('-');
    let (driver, program, size, _round) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (_, driver) = DRIVERS.iter().find(|(name, _)| *name == driver)?;
    let size: u32 = size.parse().ok()?;
    let all = GUEST_WORK
        .iter()
        .map(|(quantity, verb, size)| Measure::new(Contender::Guest(*driver), *quantity, *verb, *size));
    all.into_iter().find(|measure| measure.perftest_program() == program && measure.size_bytes == size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::{Quantity, TestVerb};

    #[test]
    fn names_of_files_say_what_was_measured() {
        let rxe = Contender::Guest(VmDriver::Rxe);
        assert_eq!(measure("rxe-ib_send_bw-64-1"), Some(Measure::new(rxe, Quantity::Rate, TestVerb::Send, 64)));
        assert_eq!(
            measure("rxe-ib_send_bw-65536-3"),
            Some(Measure::new(rxe, Quantity::Bandwidth, TestVerb::Send, 65_536))
        );
        assert_eq!(measure("rxe-ib_send_bw-65-1"), None);
        assert_eq!(measure("README"), None);
    }
}
