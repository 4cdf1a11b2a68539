//! Peers change an exposed region at any time: there are no references to its bytes.
use longarm::MemoryRegion;

fn misuse(region: &MemoryRegion) {
    let bytes: &[u8] = region;
    println!("{:?}", &bytes[..8]);
}

fn main() {}
