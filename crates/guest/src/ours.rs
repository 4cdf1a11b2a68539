//! Which threads of the process are ours.
//!
//! Our threads write to the program's memory through keys alone. So whoever must know that nobody writes to some memory
//! can leave them out of account.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI64, AtomicUsize};
use std::time::Duration;

/// More threads than we ever start; one that finds no place counts as the program's.
const MOST: usize = 1024;
/// Process and thread number; zero is a free place. A child of a fork has the list, but not the threads.
static OURS: [AtomicI64; MOST] = [const { AtomicI64::new(0) }; MOST];

/// Threads that were asked for and have not entered yet.
static STARTING: AtomicUsize = AtomicUsize::new(0);
/// How often [`settled`] looks: first it yields, then it sleeps in between, for seconds in all.
const LOOKS: u32 = 2000;
const YIELDS: u32 = 100;
const NAP: Duration = Duration::from_millis(1);

/// Whether every thread that [`spawn`](crate::spawn) was asked for is in the list by now; waits a moment for it.
#[must_use]
pub fn settled() -> bool {
    for look in 0..LOOKS {
        if STARTING.load(SeqCst) == 0 {
            return true;
        }
        if look < YIELDS { std::thread::yield_now() } else { std::thread::sleep(NAP) }
    }
    false
}

/// A thread is being started until this is dropped, by that thread or by who could not start it.
pub(crate) struct Starting(());

impl Starting {
    pub(crate) fn new() -> Starting {
        STARTING.fetch_add(1, SeqCst);
        Starting(())
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        STARTING.fetch_sub(1, SeqCst);
    }
}

/// Whether this thread of this process was started by [`spawn`](crate::spawn).
#[must_use]
pub fn is_ours(thread: i32) -> bool {
    let entry = entry(thread);
    OURS.iter().any(|place| place.load(SeqCst) == entry)
}

/// The calling thread is ours until this is dropped.
pub(crate) struct Entered(Option<&'static AtomicI64>);

impl Entered {
    pub(crate) fn new() -> Entered {
        let entry = entry(rustix::thread::gettid().as_raw_nonzero().get());
        let own_process = entry >> 32;
        let place = OURS.iter().find(|place| {
            let held = place.load(Relaxed);
            // Threads of a process that this one was forked from are not here.
            (held == 0 || held >> 32 != own_process) && place.compare_exchange(held, entry, SeqCst, Relaxed).is_ok()
        });
        Entered(place)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, SeqCst);
        }
    }
}

fn entry(thread: i32) -> i64 {
    i64::from(std::process::id() as i32) << 32 | i64::from(thread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_is_in_the_list_when_nobody_is_starting() {
        for _ in 0..200 {
            let (tell, told) = channel();
            let (end, ended) = channel::<()>();
            let thread = crate::spawn("ours", move || {
                tell.send(own()).unwrap();
                let _ = ended.recv();
            });
            assert!(settled());
            let mut tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
            let number = told.recv().unwrap();
            assert!(tasks.any(|task| task.file_name().to_str() == Some(&number.to_string())) && is_ours(number));
            drop(end);
            thread.unwrap().join().unwrap();
        }
    }

    fn own() -> i32 {
        rustix::thread::gettid().as_raw_nonzero().get()
    }

    #[test]
    fn threads_that_we_start_are_ours_while_they_run() {
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let thread = crate::spawn("ours", move || {
            tell.send(own()).unwrap();
            let _ = ended.recv();
        });
        let thread_number = told.recv().unwrap();
        assert!(is_ours(thread_number) && !is_ours(own()));
        drop(end);
        thread.unwrap().join().unwrap();
        assert!(!is_ours(thread_number));
    }
}
