//! A buffer cannot be cloned, nor can the things that a request borrows.
use longarm::{Buffer, Message, Window};

fn clone<T: Clone>(one: &T) -> T {
    one.clone()
}

fn misuse(buffer: &Buffer, message: &Message, window: &Window<'_>) {
    clone(buffer);
    clone(message);
    clone(window);
}

fn main() {}
