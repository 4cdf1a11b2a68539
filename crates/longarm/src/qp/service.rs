//! The transport services as types.

use transport::QpType;

mod sealed {
    pub trait Sealed {}
}

/// A transport service.
pub trait Service: sealed::Sealed + Send + Sync + 'static {
    /// Its number in the verbs.
    const TYPE: QpType;
}

/// A service between two queue pairs that have been connected: [`Rc`] or [`Uc`].
pub trait Connected: Service {}

/// Reliable connection: every message arrives once and in order, or the connection fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rc {}

/// Unreliable connection: messages arrive whole and in order, or are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uc {}

/// Unreliable datagrams, to anybody, in single packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ud {}

impl sealed::Sealed for Rc {}
impl sealed::Sealed for Uc {}
impl sealed::Sealed for Ud {}

impl Service for Rc {
    const TYPE: QpType = QpType::Rc;
}

impl Service for Uc {
    const TYPE: QpType = QpType::Uc;
}

impl Service for Ud {
    const TYPE: QpType = QpType::Ud;
}

impl Connected for Rc {}
impl Connected for Uc {}
