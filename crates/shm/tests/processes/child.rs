//! The children's roles.

use memory::Region;
use std::os::fd::AsFd;

use testkit::wait_until;

use crate::couple::{Couple, block};
use crate::kill;

/// Plays a role, for ever or until it is over. False if there is no such role.
pub(crate) fn play(name: &str) -> bool {
    match name {
        "objects" => objects(),
        "far" => far(),
        "echo" => echo(),
        "alive" => alive(),
        "stream" => kill::stream(),
        _ => return false,
    }
    true
}

fn objects() {
    let couple = Couple::inherit();
    wait_until("the parent's object", || {
        couple.link.serve_socket();
        couple.link.peer().object(7).is_some()
    });
    couple.link.peer().object(7).expect("mapped").span().part(1 << 20, 5).expect("inside").write(b"child");
    let region = Region::allocate(100).expect("memory");
    assert!(couple.link.offer_object(9, &region.object_file().expect("a file")));
    couple.send(b"written");
    assert_eq!(couple.receive(), b"look");
    let mut seen = [0; 6];
    region.span().part(0, 6).expect("inside").read(&mut seen);
    couple.send(&seen);
    assert_eq!(couple.receive(), b"end");
}

fn far() {
    let couple = Couple::inherit();
    let mut memory = Box::new(*b"far away");
    let address = (&raw mut *memory).addr() as u64;
    couple.send(&address.to_ne_bytes());
    let expected = couple.receive();
    let now = core::hint::black_box(&*memory);
    couple.send(if now[..] == expected[..] { b"right" } else { b"wrong" });
    // Waits until the parent kills this process.
    couple.receive();
}

/// Ties its life to a thread, until it is told to let go of it; and once more.
fn alive() {
    let couple = Couple::inherit();
    for _ in 0..2 {
        let life = couple.export.hold_life().expect("nobody holds it");
        assert!(couple.export.hold_life().is_none());
        couple.send(b"held");
        assert_eq!(couple.receive(), b"on");
        drop(life);
        couple.send(b"let go");
        assert_eq!(couple.receive(), b"on");
    }
    let _life = couple.export.hold_life().expect("nobody holds it");
    couple.send(b"held");
    // Waits until the parent kills this process, or lets it end without a drop.
    if couple.receive() == b"end" {
        std::process::exit(0);
    }
}

fn echo() {
    let couple = Couple::inherit();
    loop {
        let frame = block(&couple.link, &couple.export, couple.bell.as_fd());
        couple.send(&frame);
    }
}
