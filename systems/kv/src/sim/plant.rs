//! Planted bugs: mistakes that an implementation could make. The checks must find each of them.

/// A mistake of a client, a connection, a session, or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Readers take an object for whole that was written meanwhile.
    UncheckedReads,
    /// READs of objects bring what an earlier READ brought.
    StaleReads,
    /// Readers ignore the expiry of values.
    ExpiryIgnored,
    /// The server ends a lock, and its holder goes on to write.
    BreakWithoutCut,
    /// The server reuses a block at once in which a last access may arrive.
    EarlyReturn,
    /// Clients unlock an object before they write it.
    UnlockFirst,
    /// Clients leave no copy of the object that they write.
    NoCopy,
    /// The server carries out a request that comes twice, twice.
    RunTwice,
    /// Clients take a request that was lost for one that was not executed.
    RepeatUnknown,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 9] = [
        Plant::UncheckedReads,
        Plant::StaleReads,
        Plant::ExpiryIgnored,
        Plant::BreakWithoutCut,
        Plant::EarlyReturn,
        Plant::UnlockFirst,
        Plant::NoCopy,
        Plant::RunTwice,
        Plant::RepeatUnknown,
    ];

    /// The plant of that name.
    pub fn named(name: &str) -> Option<Plant> {
        Plant::ALL.into_iter().find(|plant| format!("{plant:?}").eq_ignore_ascii_case(name))
    }
}
