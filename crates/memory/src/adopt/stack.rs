//! The address range of the calling thread's stack: a thread cannot wait for itself.

use std::cell::OnceCell;
use std::ops::Range;

thread_local! {
    static STACK: OnceCell<Range<usize>> = const { OnceCell::new() };
}

/// True if a range overlaps this thread's stack. The stacks of other threads are ordinary memory.
pub(super) fn overlaps(range: &Range<usize>) -> bool {
    STACK.with(|stack| {
        let stack = stack.get_or_init(find);
        stack.start < range.end && range.start < stack.end
    })
}

/// All addresses if the C library does not know the stack.
fn find() -> Range<usize> {
    // SAFETY: each call fills the variables that it is given, or fails.
    unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return 0..usize::MAX;
        }
        let (mut start, mut len_bytes) = (core::ptr::null_mut(), 0);
        let failed = libc::pthread_attr_getstack(&attributes, &mut start, &mut len_bytes);
        libc::pthread_attr_destroy(&mut attributes);
        if failed == 0 { start.addr()..start.addr().saturating_add(len_bytes) } else { 0..usize::MAX }
    }
}
