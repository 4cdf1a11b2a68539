//! Two mutable uses of one buffer at a time.
use longarm::Buffer;

fn misuse(mut buffer: Buffer) {
    let first: &mut [u8] = &mut buffer;
    let second: &mut [u8] = &mut buffer;
    first.swap_with_slice(second);
}

fn main() {}
