//! Memory that the program allocated itself (its heap, its mappings) made reachable for peers
//! on the same host.
//!
//! A peer can map a memfd, but not another process' private pages. So when memory is registered,
//! its whole pages may be moved into a memfd *in place*: the program keeps its pointers, and what is
//! behind them is shared from then on. When the last key over them ends they become private again.
//!
//! ```text
//!   registered ── may move? (proof) ──► copied to the memfd (moves, store) ── mremap over the range ──► adopted
//!       │ no                                                                                             │
//!       ▼                                         last key ends, may move back ──► copied back ◄─────────┤
//!   reached by process_vm or frames               fork ──► private in one step (give_up, fork) ◄─────────┘
//! ```
//!
//! **When.** By default ([`Adoption::Safe`]) only where it is proven that the program sees what it would see with a
//! network card: see [`proof`]. With [`Adoption::Always`] wherever the kernel can stop those who write meanwhile
//! (userfaultfd, `freeze`); a program that uses io_uring, direct I/O or threads beside it may then read wrong bytes.
//!
//! **What ends it.** Pages move back only while that is proven as well: after the last key has ended they stay where
//! they are if the program has threads by then, or a descriptor that may hold pages. At a `fork` all adoption is
//! given up ([`give_up`]), or, if somebody may hold pages, the child gets a copy ([`fork`]). `madvise` passes
//! through [`advice`].
//!
//! What the program may notice all the same:
//! - Registered pages count as shared memory: against the limit of the control
//!   group, not against `vm.overcommit`. If there is no room ([`room`]), nothing is adopted.
//! - `mlock`, NUMA policies and protection keys of the range are lost. Transparent huge pages are those of shared memory
//!   while it is adopted. Afterwards the range stays a mapping of its own, which does not join its neighbours.
//! - The child of a bare `clone` system call, which runs no handlers, shares adopted pages with its parent. (One of
//!   `vfork` or `posix_spawn` shares all memory anyway until it executes another program.)
//! - Pages that were adopted at a fork take memory until both processes have ended.
//!
//! The other ways are slower or not one-sided. `process_vm_writev` costs more than a microsecond
//! at any size, against some 40 ns for 4 KiB through a mapping, and can do no atomics; a copy
//! through a ring needs the target's processor. They remain for what is not adopted.
//!
//! Registrations that overlap share a window of the memfd. A program may unmap memory before it deregisters
//! it, or move it with mremap(2); so mappings are looked for by their file before they are touched.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::mirror::Mirror;
use crate::objects::{Lodging, Object};
use crate::probe::{self, overlap, survey, whole_pages};
use crate::region::page_bytes;

mod advice;
mod fork;
mod freeze;
mod give_up;
mod held;
mod holders;
mod moves;
mod proof;
mod room;
mod stack;
mod store;
mod waiters;

pub use advice::advise;
pub use give_up::is_given_up;
pub(crate) use give_up::next_number;
pub use proof::{Adoption, Verdict, set_advice_watched};

use freeze::Writers;
use give_up::Mirrors;
use held::{Held, Number};
use moves::{Pages, Part, Refused, Then};
use store::{Store, Window};

/// Adopted ranges of this process, whichever registry they are registered in. They do not overlap.
static TABLE: Mutex<Table> = Mutex::new(Table::new());

struct Table {
    store: Option<Store>,
    /// By first byte. Those that no key leads to could not be moved back yet.
    adopted: BTreeMap<usize, Arc<Adopted>>,
    held: Held,
    mirrors: Mirrors,
}

/// Pages of the program in a window of the store.
#[derive(Debug)]
pub(crate) struct Adopted {
    window: Window,
    range: Range<usize>,
    mode: Adoption,
}

impl Object for Adopted {
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

/// A registration, as far as the pages under it are concerned; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    range: Range<usize>,
    number: Number,
}

/// Notes that a range is being registered, and says where it lies, if any of it is or can be adopted. `plain` is what the
/// survey said of its whole pages.
///
/// # Safety
/// If `plain`, the whole pages of the range must be private anonymous memory of the program, and
/// the caller must be its owner as [`register`](crate::Registry::register) asks.
pub(crate) unsafe fn lodge(range: Range<usize>, plain: bool, mode: Adoption) -> (Option<Lodging>, Option<Hold>) {
    if mode == Adoption::Never || range.is_empty() {
        return (None, None);
    }
    let mut table = lock();
    // SAFETY: passed on to the caller.
    let found = unsafe { table.place(&range, plain, mode) };
    found.as_ref().err().unwrap_or(&Verdict::Adopted).tell(&range);
    let number = table.held.insert(&range);
    (found.ok(), Some(Hold { range, number }))
}

/// Counts somebody in who tells peers of keys.
pub(crate) fn add_mirror(mirror: &Arc<dyn Mirror>) {
    lock().mirrors.add(mirror);
}

impl Drop for Hold {
    /// Pages that no key leads to become private again, if nobody can notice.
    fn drop(&mut self) {
        let mut table = lock();
        table.held.remove(&self.range, self.number);
        table.give_back(&self.range);
    }
}

impl Table {
    const fn new() -> Table {
        Table { store: None, adopted: BTreeMap::new(), held: Held::new(), mirrors: Mirrors::new() }
    }

    /// Where a range lies, moved there if need be.
    ///
    /// # Safety
    /// As [`lodge`].
    unsafe fn place(&mut self, range: &Range<usize>, plain: bool, mode: Adoption) -> Result<Lodging, Verdict> {
        let pages = whole_pages(range.clone());
        if self.over(range).next().is_some() && !self.held.overlaps(range) {
            // What was left behind may be movable now; or the program has put other memory there.
            self.give_back(range);
        }
        let mut over = self.over(range);
        let adopted = match (over.next(), over.next()) {
            (Some(adopted), None) => Arc::clone(adopted),
            (Some(_), Some(_)) => return Err(Verdict::Registered),
            (None, _) => {
                drop(over);
                if !plain || pages.is_empty() || stack::overlaps(&pages) || !is_plain(range) {
                    return Err(Verdict::Unsuitable);
                }
                // SAFETY: passed on to the caller.
                unsafe { self.adopt(pages, mode) }?
            }
        };
        adopted.lodge(range).ok_or(Verdict::Registered)
    }

    /// The adopted ranges that a range overlaps.
    fn over<'a>(&'a self, range: &Range<usize>) -> impl Iterator<Item = &'a Arc<Adopted>> + use<'a> {
        // They do not overlap each other, so no range before the last that begins before ours can reach into it.
        let before = self.adopted.range(..range.start).next_back();
        let range = range.clone();
        let found = before.into_iter().chain(self.adopted.range(range.start..range.end.max(range.start)));
        found.map(|(_, adopted)| adopted).filter(move |adopted| !overlap(&adopted.range, &range).is_empty())
    }

    /// # Safety
    /// As [`lodge`].
    unsafe fn adopt(&mut self, range: Range<usize>, mode: Adoption) -> Result<Arc<Adopted>, Verdict> {
        if self.held.overlaps(&range) {
            return Err(Verdict::Registered);
        }
        if give_up::is_over() {
            return Err(Verdict::Forked);
        }
        let writers = Writers::for_moving(&range, mode)?;
        let refused = |error: io::Error| {
            log::debug!("pages cannot be adopted: {error}");
            Verdict::Refused
        };
        fork::watch().map_err(refused)?;
        let window = store::window(&mut self.store, &range).map_err(refused)?;
        let pages = Pages { range: range.clone(), offset: window.start };
        // SAFETY: passed on to the caller; and this thread's stack is elsewhere.
        let moved = unsafe { moves::into_memfd(&pages, &window.fd, writers) };
        if let Err(Refused::AsItWas(error)) = moved {
            return Err(refused(error));
        }
        let adopted = Arc::new(Adopted { window, range: range.clone(), mode });
        self.adopted.insert(range.start, Arc::clone(&adopted));
        match moved {
            // Some of it lies in the window now. It is not told of, and moves back when it can.
            Err(_) => Err(Verdict::Refused),
            Ok(()) => Ok(adopted),
        }
    }

    /// Moves pages back that overlap a range and that no key leads to.
    fn give_back(&mut self, range: &Range<usize>) {
        let free: Vec<Arc<Adopted>> =
            self.over(range).filter(|adopted| !self.held.overlaps(&adopted.range)).cloned().collect();
        for adopted in free {
            if adopted.move_back() {
                self.adopted.remove(&adopted.range.start);
            }
        }
    }
}

impl Adopted {
    /// Where a range lies in it. Nothing if a whole page is elsewhere, or the program has put other memory there.
    fn lodge(self: Arc<Self>, range: &Range<usize>) -> Option<Lodging> {
        let inside = overlap(range, &self.range);
        let (skip_front, skip_back) = (inside.start - range.start, range.end - inside.end);
        if skip_front.max(skip_back) >= page_bytes() || give_up::is_over() || !self.is_mapped(&inside) {
            return None;
        }
        Some(Lodging {
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

    /// Makes its pages private again, wherever the program has moved them. Whether none is left in the window.
    fn move_back(&self) -> bool {
        let parts = mapped_parts(|mapping| self.window.is_in(mapping));
        // The child of a fork may still look at what its parent had adopted.
        let unseen = !give_up::is_over();
        let then = if unseen && are_apart(&parts) { Then::Free } else { Then::Keep };
        let mut all = true;
        for part in &parts {
            let movable = !stack::overlaps(&part.pages.range);
            let writers = movable.then(|| Writers::for_moving_back(self.mode).ok()).flatten();
            // SAFETY: the window is mapped there, as was just seen, and no key leads there.
            all &= writers.is_some_and(|writers| unsafe { moves::out_of_memfd(part, &self.window.fd, writers, then) });
        }
        if all && unseen {
            self.window.free();
        }
        all
    }
}

/// The mappings of adopted pages that fit.
fn mapped_parts(fits: impl Fn(&probe::Mapping) -> bool) -> Vec<Part> {
    let mut parts = Vec::new();
    probe::visit_all(|mapping, _| {
        if store::is_adopted(mapping) && fits(mapping) {
            let pages = Pages { range: mapping.range.clone(), offset: mapping.offset };
            parts.push(Part { pages, rights: mapping.rights(), shared: mapping.shared, file: mapping.file });
        }
    });
    parts
}

/// Whether no two mappings show the same bytes of the file. mremap(2) can make a second mapping of shared pages.
fn are_apart(parts: &[Part]) -> bool {
    let mut spans: Vec<Range<u64>> =
        parts.iter().map(|part| part.pages.offset..part.pages.offset + part.pages.range.len() as u64).collect();
    spans.sort_by_key(|span| span.start);
    spans.windows(2).all(|pair| pair[0].end <= pair[1].start)
}

fn is_plain(range: &Range<usize>) -> bool {
    survey(range.start, range.len(), false).is_ok_and(|found| found.plain)
}

fn lock() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
