//! What a thread needs while it works for the engine: kept per thread, made at first use.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::host::Outcome;
use crate::engine::staging::Staging;
use crate::near::Seen;
use crate::qp::QpEntry;

thread_local! {
    static KEPT: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Work under way in one thread.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Packets that are about to leave.
    pub(super) staging: Staging,
    /// What queue pairs have asked for while they were locked.
    pub(crate) outcome: Outcome,
    /// Queue pairs that may have something to send.
    pub(super) touched: VecDeque<Arc<QpEntry>>,
    /// The links to peers on this host, as this thread saw them last.
    pub(crate) seen: Seen,
    /// A list to swap with a shared one.
    pub(super) spare: Vec<Arc<QpEntry>>,
}

impl Scratch {
    /// Lends this thread's scratch to `work`. A call from within (a waker that posts) gets
    /// one of its own; after a panic the scratch is not kept.
    #[inline]
    pub(crate) fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        let mut scratch = kept.unwrap_or_default();
        let result = work(&mut scratch);
        // At a thread's end there is no place to keep it.
        let _ = KEPT.try_with(|place| place.set(Some(scratch)));
        result
    }
}
