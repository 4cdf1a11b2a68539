//! The table operation × service, with every combination of the specification.

use std::net::IpAddr;

use device::{Capabilities, Mtu};
use provider::Device;

use super::progress::DemoProgress;
use super::verify::{CaseResult, drive};
use crate::perf::{ControlConnection, Op, TestTransport};

/// A filled table.
pub(crate) struct Matrix {
    pub(crate) rows: Vec<(Op, [MatrixCell; 3])>,
}

/// A cell of the table.
#[derive(Clone, Debug)]
pub(crate) enum MatrixCell {
    /// The service has no such operation.
    None,
    /// The device lacks this.
    Lacking(&'static str),
    /// All sizes were verified: the number of cases, and of bytes in total.
    Verified { cases: usize, bytes: u64 },
    /// The first problem.
    Failed(String),
}

impl Matrix {
    /// A table of all operations without results.
    pub(crate) fn empty() -> Matrix {
        Matrix { rows: Op::ALL.map(|op| (op, [MatrixCell::None, MatrixCell::None, MatrixCell::None])).into() }
    }

    pub(crate) fn failures(&self) -> usize {
        self.rows.iter().flat_map(|(_, cells)| cells).filter(|cell| matches!(cell, MatrixCell::Failed(_))).count()
    }
}

impl MatrixCell {
    /// Merges two parts of the same cell; a failure of either fails both.
    fn join(self, other: MatrixCell) -> MatrixCell {
        match (self, other) {
            (MatrixCell::Failed(problem), _) | (_, MatrixCell::Failed(problem)) => MatrixCell::Failed(problem),
            (MatrixCell::Lacking(what), _) | (_, MatrixCell::Lacking(what)) => MatrixCell::Lacking(what),
            (MatrixCell::None, cell) | (cell, MatrixCell::None) => cell,
            (MatrixCell::Verified { cases, bytes }, MatrixCell::Verified { cases: more_cases, bytes: more_bytes }) => {
                MatrixCell::Verified { cases: cases + more_cases, bytes: bytes + more_bytes }
            }
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            MatrixCell::None => "–".into(),
            MatrixCell::Lacking(what) => format!("not there: {what}"),
            MatrixCell::Verified { cases: 1, bytes } => format!("✓ {}", crate::report::size_rounded(*bytes)),
            MatrixCell::Verified { cases, bytes } => {
                format!("✓ {cases} sizes, {}", crate::report::size_rounded(*bytes))
            }
            MatrixCell::Failed(problem) => format!("✗ {problem}"),
        }
    }
}

/// A subset of the sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatrixPart {
    /// SENDs so short that Wireshark decodes them as a broken RPC-over-RDMA header.
    ShortSends,
    /// All other cases.
    Rest,
}

/// The smallest SEND that [`MatrixPart::ShortSends`] does not include, in bytes.
const SHORT_BYTES: u32 = 32;

impl MatrixPart {
    fn has(self, op: Op, size: u32) -> bool {
        let short = matches!(op, Op::Send | Op::SendImm) && size < SHORT_BYTES;
        short == (self == MatrixPart::ShortSends)
    }
}

/// The number of progress steps of all cases: the cells that the device can fill.
pub(crate) fn steps(transports: &[TestTransport], abilities: &Capabilities) -> usize {
    let there =
        |op: Op| transports.iter().filter(move |on| op.exists_on(**on) && op.missing(**on, abilities).is_none());
    Op::ALL.into_iter().map(|op| there(op).count()).sum()
}

/// Device, peer and options of the cases.
pub(crate) struct Cases<'a> {
    pub(crate) control: &'a mut ControlConnection,
    pub(crate) device: &'a Device,
    pub(crate) address: IpAddr,
    pub(crate) transports: &'a [TestTransport],
}

impl Cases<'_> {
    /// Runs one part of all cases and adds it to the table.
    pub(crate) fn fill(&mut self, part: MatrixPart, matrix: &mut Matrix, progress: &mut DemoProgress) {
        let abilities = self.device.capabilities();
        for (op, cells) in &mut matrix.rows {
            for (cell, transport) in cells.iter_mut().zip(TestTransport::ALL) {
                if op.exists_on(transport) && self.transports.contains(&transport) {
                    if part == MatrixPart::Rest && op.missing(transport, &abilities).is_none() {
                        progress.step(&format!("{} {}", transport.name(), op.name()));
                    }
                    let before = std::mem::replace(cell, MatrixCell::None);
                    *cell = before.join(self.fill_cell(*op, transport, part));
                }
            }
        }
    }

    fn fill_cell(&mut self, op: Op, transport: TestTransport, part: MatrixPart) -> MatrixCell {
        if let Some(what) = op.missing(transport, &self.device.capabilities()) {
            return MatrixCell::Lacking(what);
        }
        let mut sizes = sizes(op, transport, self.device.port().active_mtu);
        sizes.retain(|size| part.has(op, *size));
        let mut bytes = 0;
        for size in &sizes {
            match drive(self.control, self.device, self.address, (op, transport, *size)) {
                Ok(CaseResult { verified: true, .. }) => bytes += u64::from(*size),
                Ok(CaseResult { detail, .. }) => return MatrixCell::Failed(format!("{size} bytes: {detail}")),
                Err(problem) => return MatrixCell::Failed(format!("{size} bytes: {problem}")),
            }
        }
        if sizes.is_empty() { MatrixCell::None } else { MatrixCell::Verified { cases: sizes.len(), bytes } }
    }
}

/// Sizes around every boundary: zero, one byte, one packet and a byte less or more, many packets.
fn sizes(op: Op, transport: TestTransport, mtu: Mtu) -> Vec<u32> {
    let mtu = mtu.bytes();
    match (op.is_atomic(), transport) {
        (true, _) => vec![8],
        (_, TestTransport::Ud) => vec![0, 1, 64, 1021, mtu],
        (_, TestTransport::Uc) => vec![0, 1, mtu - 1, mtu, mtu + 1, 3 * mtu + 7, 60_000],
        (_, TestTransport::Rc) => vec![0, 1, mtu - 1, mtu, mtu + 1, 3 * mtu + 7, 100_000, 4 << 20],
    }
}
