//! The number of rdma-core's own tests that pass, and the reasons why the others cannot run here.
#![allow(dead_code)] // Each test file uses its own part.

/// The least number of tests that pass.
pub(crate) const PASSES: usize = 141;

/// The beginning of a skipped test's message, and the reason for it.
pub(crate) const SKIPS: [(&str, &str); 8] = [
    ("Create QP type 8 is not supported", RAW),
    ("Create Raw Packet QP", RAW),
    ("To Create RAW QP must be done by root", RAW),
    ("Allocating dmabuf is not supported", DMABUF),
    ("Device /dev/dri/renderD", DMABUF),
    ("Lack of permission to access /dev/dri/renderD", DMABUF),
    ("There are no huge pages of size 2M allocated", "The machine has none reserved; they pass where it has."),
    ("Extended CQ is not supported", "The suite asks for tag matching, which network cards of one vendor do."),
];

const RAW: &str = "Raw packet queue pairs send Ethernet frames of the program's own; this device sends UDP.";
const DMABUF: &str = "The memory would come from a GPU's driver.";
