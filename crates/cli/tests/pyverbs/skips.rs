//! What of rdma-core's own tests passes, and why the rest cannot exist here.
#![allow(dead_code)] // Each test file uses its own part.

/// Passed at the least.
pub(crate) const PASSES: usize = 141;

/// The beginning of what a skipped test says, and why that is so.
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
