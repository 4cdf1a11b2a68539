//! The operations of the other files, used correctly.
use std::time::Duration;

use longarm::{Access, Buffer, MemoryRegion, QueuePair, Unconnected};

const PATIENCE: Duration = Duration::from_secs(1);

fn lend_and_get_back(qp: &QueuePair, mut buffer: Buffer) -> Result<Buffer, longarm::Failure> {
    buffer[0] = 1;
    let mut buffer = qp.send(buffer).wait(PATIENCE)?;
    buffer[0] = 2;
    qp.send(buffer).wait(PATIENCE)
}

fn receive_before_connecting(qp: Unconnected, peer: &longarm::ConnectionInfo, buffer: Buffer) {
    let message = qp.recv(buffer).start();
    let qp = qp.connect(peer).unwrap();
    let _ = qp.send(message.wait(PATIENCE).unwrap().into_buffer()).wait(PATIENCE);
}

fn two_halves(mut buffer: Buffer) {
    let mut tail = buffer.split_off(8);
    std::mem::swap(&mut buffer[0], &mut tail[0]);
}

fn window(qp: &QueuePair, region: MemoryRegion) {
    let window = region.window(0..8, Access::REMOTE_READ).unwrap();
    let bound = qp.bind(window).wait(PATIENCE).unwrap();
    drop(bound);
    drop(region);
}

fn futures_go_anywhere(qp: &QueuePair, buffer: Buffer) {
    let sent = qp.send(buffer).start();
    std::thread::spawn(move || sent.wait(PATIENCE));
}

fn main() {
    let _ = (lend_and_get_back, receive_before_connecting, two_halves, window, futures_go_anywhere);
}
