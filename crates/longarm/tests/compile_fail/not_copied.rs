//! A buffer is one: it cannot be cloned to be in two places, nor can what a request borrows.
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
