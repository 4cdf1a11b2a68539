//! Settings of the verbs below a session.

/// Choices that the literature discusses and that a benchmark turns. The defaults are those that this project's own
/// measurements favour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerbsTuning {
    /// Every how many requests of a send queue one has a completion of its own: 1 to 64.
    pub signal_every: u32,
    /// Whether requests that follow each other share a doorbell, and on the wire a system call.
    pub batch_doorbells: bool,
    /// WRITEs of at most so many bytes carry their bytes inline, in place of the address of a registered copy: 0 to 220.
    /// Those with immediate data do not, nor those of *herd*. A device that has less refuses the connection.
    pub inline_bytes: u32,
    /// Whether the memory that peers write or read is one region for all of them (FaRM, HERD), in place of one for each. Peers
    /// must trust each other then: each has the key to the others' part.
    pub one_region: bool,
}

impl Default for VerbsTuning {
    fn default() -> VerbsTuning {
        VerbsTuning { signal_every: 16, batch_doorbells: true, inline_bytes: 0, one_region: false }
    }
}
