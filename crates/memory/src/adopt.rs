//! Adoption: memory that the program allocated itself (its heap, its mappings) becomes reachable for peers on
//! the same host.
//!
//! A peer can map a memfd, but not another process' private pages. When the program registers memory, its
//! whole pages may therefore move into a memfd *in place*. The program keeps its pointers, and the memory
//! behind them is shared. When the last key over the pages ends, they become private again.
//!
//! ```text
//!   registered ── may move? (proof) ──► copied to the memfd (moves, store) ── mremap over the range ──► adopted
//!       │ no                                                                                             │
//!       ▼                                         last key ends, may move back ──► copied back ◄─────────┤
//!   reached by process_vm or frames               fork ──► private in one step (give_up, fork) ◄─────────┘
//! ```
//!
//! **When.** By default ([`Adoption::Safe`]) pages move only where it is proven that the program sees the
//! same as with a network card: see [`proof`]. With [`Adoption::Always`] they move wherever the kernel can
//! stop concurrent writers (userfaultfd, `freeze`). A program that also uses io_uring, direct I/O or threads
//! may then read wrong bytes.
//!
//! **The end.** Pages move back only while that is proven as well. If the program has threads when the last
//! key ends, or a descriptor that may hold pages, the pages stay in the memfd. A `fork` gives up all adoption
//! ([`give_up`]); if pages may be held, the child gets a copy instead ([`fork`]). `madvise` passes through
//! [`advice`].
//!
//! The program may still notice:
//! - Registered pages count as shared memory: against the limit of the control group, not against
//!   `vm.overcommit`. If there is no room ([`room`]), nothing is adopted.
//! - `mlock`, NUMA policies and protection keys of the range are lost. While the range is adopted, its
//!   transparent huge pages are those of shared memory. Afterwards the range stays a mapping of its own,
//!   which the kernel does not merge with adjacent ones.
//! - The child of a bare `clone` system call, which runs no handlers, shares adopted pages with its parent.
//!   (A child of `vfork` or `posix_spawn` shares all memory anyway until it executes another program.)
//! - Pages that were adopted at a fork take memory until both processes have ended.
//!
//! The alternatives are slower or not one-sided. `process_vm_writev` is a system call for each access and can
//! do no atomics. A copy through a ring needs the target's processor. Both remain for memory that is not
//! adopted.
//!
//! Registrations that overlap share a window of the memfd. A program may unmap memory before it deregisters
//! it, or move it with mremap(2). So this module finds mappings by their file before it changes them.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::mirror::Mirror;
use crate::objects::{MappableObject, ObjectRange};
use crate::probe::{self, overlap, survey, whole_pages};
use crate::region::page_bytes;

mod advice;
mod fork;
mod freeze;
mod give_up;
mod holders;
mod moves;
mod proof;
mod registered;
mod room;
mod stack;
mod store;
mod waiters;

pub use advice::advise;
pub use give_up::is_given_up;
pub(crate) use give_up::next_number;
pub use proof::{Adoption, AdoptionResult, set_advice_watched};

use freeze::Writers;
use give_up::Mirrors;
use moves::{AdoptedPart, AfterMove, MoveError, Pages};
use registered::{Number, RegisteredRanges};
use store::{Store, StoreWindow};

/// The adopted ranges of this process, for all registries. They do not overlap.
static TABLE: Mutex<AdoptedTable> = Mutex::new(AdoptedTable::new());

struct AdoptedTable {
    store: Option<Store>,
    /// By first byte. Ranges without a key are still here if they could not be moved back yet.
    adopted: BTreeMap<usize, Arc<Adopted>>,
    registered: RegisteredRanges,
    mirrors: Mirrors,
}

/// Pages of the program that lie in a window of the store.
#[derive(Debug)]
pub(crate) struct Adopted {
    window: StoreWindow,
    range: Range<usize>,
    mode: Adoption,
}

impl MappableObject for Adopted {
    fn file(&self) -> Option<&Arc<OwnedFd>> {
        Some(&self.window.fd)
    }

    fn start(&self) -> u64 {
        self.window.start
    }

    fn bytes(&self) -> u64 {
        self.window.bytes
    }

    fn next_number(&self) -> Option<u32> {
        next_number()
    }
}

/// The adoption side of one registration; dropping it ends the registration.
#[derive(Debug)]
pub(crate) struct RegistrationHold {
    range: Range<usize>,
    number: Number,
}

/// Records that a range is being registered. If any of it is or can be adopted, also returns its place.
/// `plain` is the result of the survey of its whole pages.
///
/// # Safety
/// If `plain`, the whole pages of the range must be private anonymous memory of the program. The
/// caller must be its owner as [`register`](crate::Registry::register) asks.
pub(crate) unsafe fn enter_range(
    range: Range<usize>,
    plain: bool,
    mode: Adoption,
) -> (Option<ObjectRange>, Option<RegistrationHold>) {
    if mode == Adoption::Never || range.is_empty() {
        return (None, None);
    }
    let mut table = lock();
    // SAFETY: this function's contract is that of `place`.
    let found = unsafe { table.place(&range, plain, mode) };
    found.as_ref().err().unwrap_or(&AdoptionResult::Adopted).log(&range);
    let number = table.registered.insert(&range);
    (found.ok(), Some(RegistrationHold { range, number }))
}

/// Adds a mirror, which tells peers of keys.
pub(crate) fn add_mirror(mirror: &Arc<dyn Mirror>) {
    lock().mirrors.add(mirror);
}

impl Drop for RegistrationHold {
    /// Makes pages that no key covers private again, if nobody can notice.
    fn drop(&mut self) {
        let mut table = lock();
        table.registered.remove(&self.range, self.number);
        table.give_back(&self.range);
    }
}

impl AdoptedTable {
    const fn new() -> AdoptedTable {
        AdoptedTable {
            store: None,
            adopted: BTreeMap::new(),
            registered: RegisteredRanges::new(),
            mirrors: Mirrors::new(),
        }
    }

    /// The place of a range. Moves the range there if necessary.
    ///
    /// # Safety
    /// As [`enter_range`].
    unsafe fn place(
        &mut self,
        range: &Range<usize>,
        plain: bool,
        mode: Adoption,
    ) -> Result<ObjectRange, AdoptionResult> {
        let pages = whole_pages(range.clone());
        if self.overlapping(range).next().is_some() && !self.registered.overlaps(range) {
            // Pages that could not move back may be movable by this time; or the program has mapped other
            // memory there.
            self.give_back(range);
        }
        let mut adopted_here = self.overlapping(range);
        let adopted = match (adopted_here.next(), adopted_here.next()) {
            (Some(adopted), None) => Arc::clone(adopted),
            (Some(_), Some(_)) => return Err(AdoptionResult::Registered),
            (None, _) => {
                drop(adopted_here);
                if !plain || pages.is_empty() || stack::overlaps(&pages) || !is_plain(range) {
                    return Err(AdoptionResult::Unsuitable);
                }
                // SAFETY: the contract of `enter_range`: if `plain`, the pages are private anonymous memory of the
                // program, registered by their owner.
                unsafe { self.adopt(pages, mode) }?
            }
        };
        adopted.place_of(range).ok_or(AdoptionResult::Registered)
    }

    /// The adopted ranges that overlap a range.
    fn overlapping<'a>(&'a self, range: &Range<usize>) -> impl Iterator<Item = &'a Arc<Adopted>> + use<'a> {
        // Adopted ranges do not overlap. Of those that begin before this range, only the last can reach into
        // it.
        let before = self.adopted.range(..range.start).next_back();
        let range = range.clone();
        let found = before.into_iter().chain(self.adopted.range(range.start..range.end.max(range.start)));
        found.map(|(_, adopted)| adopted).filter(move |adopted| !overlap(&adopted.range, &range).is_empty())
    }

    /// # Safety
    /// As [`enter_range`].
    unsafe fn adopt(&mut self, range: Range<usize>, mode: Adoption) -> Result<Arc<Adopted>, AdoptionResult> {
        if self.registered.overlaps(&range) {
            return Err(AdoptionResult::Registered);
        }
        if give_up::is_over() {
            return Err(AdoptionResult::Forked);
        }
        let writers = Writers::for_moving(&range, mode)?;
        let refused = |error: io::Error| {
            log::debug!("pages cannot be adopted: {error}");
            AdoptionResult::Refused
        };
        fork::watch().map_err(refused)?;
        let window = store::window(&mut self.store, &range).map_err(refused)?;
        let pages = Pages { range: range.clone(), offset: window.start };
        // SAFETY: the contract of `enter_range` makes these private anonymous pages; and `place` has excluded this
        // thread's stack.
        let moved = unsafe { moves::into_memfd(&pages, &window.fd, writers) };
        if let Err(MoveError::Unchanged(error)) = moved {
            return Err(refused(error));
        }
        let adopted = Arc::new(Adopted { window, range: range.clone(), mode });
        self.adopted.insert(range.start, Arc::clone(&adopted));
        match moved {
            // Some of the range lies in the window already. Peers do not hear of it, and it moves back when
            // it can.
            Err(_) => Err(AdoptionResult::Refused),
            Ok(()) => Ok(adopted),
        }
    }

    /// Moves pages back that overlap a range and that no key covers.
    fn give_back(&mut self, range: &Range<usize>) {
        let free: Vec<Arc<Adopted>> =
            self.overlapping(range).filter(|adopted| !self.registered.overlaps(&adopted.range)).cloned().collect();
        for adopted in free {
            if adopted.move_back() {
                self.adopted.remove(&adopted.range.start);
            }
        }
    }
}

impl Adopted {
    /// The place of a range in these pages. `None` if a whole page of it is elsewhere, or the program has
    /// mapped other memory there.
    fn place_of(self: Arc<Self>, range: &Range<usize>) -> Option<ObjectRange> {
        let inside = overlap(range, &self.range);
        let (skip_front, skip_back) = (inside.start - range.start, range.end - inside.end);
        if skip_front.max(skip_back) >= page_bytes() || give_up::is_over() || !self.is_mapped(&inside) {
            return None;
        }
        Some(ObjectRange {
            offset: (inside.start - self.range.start) as u64,
            skip_front: skip_front as u64,
            skip_back: skip_back as u64,
            object: self,
        })
    }

    fn is_mapped(&self, range: &Range<usize>) -> bool {
        let mut bytes = 0;
        probe::visit(range, |mapping| {
            let (part, offset) = mapping.part(range);
            let expected = self.window.start + (part.start - self.range.start) as u64;
            if mapping.shared && self.window.is_in(mapping) && offset == expected {
                bytes += part.len();
            }
        });
        bytes == range.len()
    }

    /// Makes the pages private again, wherever the program has moved them. Returns true if none is left in
    /// the window.
    fn move_back(&self) -> bool {
        let parts = mapped_parts(|mapping| self.window.is_in(mapping));
        // The child of a fork may still read its parent's adopted pages.
        let unseen = !give_up::is_over();
        let then = if unseen && are_apart(&parts) { AfterMove::Free } else { AfterMove::Keep };
        let mut all = true;
        for part in &parts {
            let movable = !stack::overlaps(&part.pages.range);
            let writers = movable.then(|| Writers::for_moving_back(self.mode).ok()).flatten();
            // SAFETY: `mapped_parts` has just found the window mapped there, and no key covers it.
            all &= writers.is_some_and(|writers| unsafe { moves::out_of_memfd(part, &self.window.fd, writers, then) });
        }
        if all && unseen {
            self.window.free();
        }
        all
    }
}

/// The mappings of adopted pages that satisfy `fits`.
fn mapped_parts(fits: impl Fn(&probe::MapsEntry) -> bool) -> Vec<AdoptedPart> {
    let mut parts = Vec::new();
    probe::visit_all(|mapping, _| {
        if store::is_adopted(mapping) && fits(mapping) {
            let pages = Pages { range: mapping.range.clone(), offset: mapping.offset };
            parts.push(AdoptedPart { pages, rights: mapping.rights(), shared: mapping.shared, file: mapping.file });
        }
    });
    parts
}

/// True if no two mappings show the same bytes of the file. mremap(2) can make a second mapping of shared
/// pages.
fn are_apart(parts: &[AdoptedPart]) -> bool {
    let mut spans: Vec<Range<u64>> =
        parts.iter().map(|part| part.pages.offset..part.pages.offset + part.pages.range.len() as u64).collect();
    spans.sort_by_key(|span| span.start);
    spans.windows(2).all(|pair| pair[0].end <= pair[1].start)
}

fn is_plain(range: &Range<usize>) -> bool {
    survey(range.start, range.len(), false).is_ok_and(|found| found.plain)
}

fn lock() -> MutexGuard<'static, AdoptedTable> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
