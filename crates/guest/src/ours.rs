//! The list of this library's threads in the process.
//!
//! These threads write to the program's memory only through keys. Code that must prove that no thread writes
//! to some memory can therefore ignore them.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI64, AtomicUsize};
use std::time::Duration;

/// More threads than this library ever starts; one that finds no free slot counts as the program's.
const MOST: usize = 1024;
/// Process and thread number; zero is a free slot. A child of a fork has the list, but not the threads.
static OURS: [AtomicI64; MOST] = [const { AtomicI64::new(0) }; MOST];

/// The number of threads that were requested and are not in the list yet.
static STARTING: AtomicUsize = AtomicUsize::new(0);
/// The number of polls of [`settled`]: first it yields between them, then it sleeps, for seconds in all.
const POLLS: u32 = 2000;
const YIELDS: u32 = 100;
const NAP: Duration = Duration::from_millis(1);

/// Waits until every thread that [`spawn`](crate::spawn) was asked for is in the list. Returns false if that
/// takes too long.
#[must_use]
pub fn settled() -> bool {
    for poll in 0..POLLS {
        if STARTING.load(SeqCst) == 0 {
            return true;
        }
        if poll < YIELDS { std::thread::yield_now() } else { std::thread::sleep(NAP) }
    }
    false
}

/// Marks a thread as starting until dropped, by that thread or by the caller that could not start it.
pub(crate) struct StartingThread(());

impl StartingThread {
    pub(crate) fn new() -> StartingThread {
        STARTING.fetch_add(1, SeqCst);
        StartingThread(())
    }
}

impl Drop for StartingThread {
    fn drop(&mut self) {
        STARTING.fetch_sub(1, SeqCst);
    }
}

/// True if this thread of this process was started by [`spawn`](crate::spawn).
#[must_use]
pub fn is_ours(thread: i32) -> bool {
    let entry = entry(thread);
    OURS.iter().any(|place| place.load(SeqCst) == entry)
}

/// Keeps the calling thread in the list until dropped.
pub(crate) struct ListedThread(Option<&'static AtomicI64>);

impl ListedThread {
    pub(crate) fn new() -> ListedThread {
        let entry = entry(rustix::thread::gettid().as_raw_nonzero().get());
        let own_process = entry >> 32;
        let place = OURS.iter().find(|place| {
            let held = place.load(Relaxed);
            // An entry of another process is left over from before a fork, so its slot is free.
            (held == 0 || held >> 32 != own_process) && place.compare_exchange(held, entry, SeqCst, Relaxed).is_ok()
        });
        ListedThread(place)
    }
}

impl Drop for ListedThread {
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
    fn a_thread_is_in_the_list_when_none_is_starting() {
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
