//! On-demand memory and the null region, used by queue pairs.
#![allow(unsafe_code)]

use smallvec::smallvec;
use transport::{Access, Payload, QpState, QpType, SendOp, SendWr, Sge, Status};

use super::rig::*;
use crate::handles::mr::Mr;

const ON_DEMAND: Access = ALL_ACCESS.union(Access::ON_DEMAND);

/// A page of zeros that is unmapped when this is dropped.
struct Page(*mut libc::c_void);

impl Page {
    const BYTES: usize = 4096;

    fn map(at: *mut libc::c_void, rights: libc::c_int) -> Page {
        let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
        // SAFETY: the mapping is new, or replaces a page that only this test uses and has no references to.
        let start = unsafe { libc::mmap(at, Page::BYTES, rights, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Page(start)
    }

    /// Replaces it by another page of zeros with these rights.
    fn replace(&self, rights: libc::c_int) {
        std::mem::forget(Page::map(self.0, rights));
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: only this test uses the page, and on-demand regions permit that it is unmapped.
        assert_eq!(unsafe { libc::munmap(self.0, Page::BYTES) }, 0);
    }
}

fn register(node: &Node, page: &Page) -> Mr {
    // SAFETY: no references to the page exist, and the test unmaps it only while no atomic works on it.
    unsafe { node.pd.register(page.0.cast(), Page::BYTES as u64, page.0.addr() as u64, ON_DEMAND) }.unwrap()
}

fn wr(wr_id: u64, op: SendOp, sge: Sge) -> SendWr {
    let payload = Payload::Sgl(smallvec![sge]);
    SendWr { wr_id, op, flags: transport::SendFlags::SIGNALED, payload, datagram: None, xrc_srq: None }
}

#[test]
pub(super) fn peers_reach_pages_that_came_after_the_registration() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let page = Page::map(std::ptr::null_mut(), libc::PROT_NONE);
        let mr = register(&b, &page);
        let remote = transport::RemoteAddr { addr: mr.addr(), rkey: mr.rkey() };
        page.replace(libc::PROT_READ | libc::PROT_WRITE);
        for round in 0..3 {
            a.write(0, &pattern(round, Page::BYTES));
            a.send(1, SendOp::Write(remote), 0, Page::BYTES);
            a.send(2, SendOp::Read(remote), Page::BYTES, Page::BYTES);
            assert_eq!((a.sent().wr_id, a.sent().wr_id), (1, 2));
            assert_eq!(a.read(Page::BYTES, Page::BYTES), pattern(round, Page::BYTES));
            page.replace(libc::PROT_READ | libc::PROT_WRITE);
        }
        page.replace(libc::PROT_NONE);
        a.send(3, SendOp::Write(remote), 0, 64);
        assert_eq!(next(&a.send_cq).status, Status::RemoteAccess);
        wait_until("the peer's failure", || b.qp.state() == QpState::Error);
    });
}

#[test]
fn lists_with_unmapped_pages_are_refused() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let page = Page::map(std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
        let mr = register(&a, &page);
        let sge = Sge { addr: mr.addr(), len_bytes: 1000, lkey: mr.lkey() };
        b.write(0, &pattern(1, 1000));
        a.qp.post_send([wr(1, SendOp::Read(b.remote(0)), sge)]).unwrap();
        a.sent();
        a.qp.post_send([wr(2, SendOp::Write(b.remote(2000)), sge)]).unwrap();
        a.sent();
        assert_eq!(b.read(2000, 1000), pattern(1, 1000));
        page.replace(libc::PROT_NONE);
        a.qp.post_send([wr(3, SendOp::Write(b.remote(0)), sge)]).unwrap();
        assert_eq!(next(&a.send_cq).status, Status::LocalProtection);
    });
}

#[test]
fn the_whole_address_space_serves_lists() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let access = Access::LOCAL_WRITE | Access::ON_DEMAND;
        // SAFETY: the work requests name only the vector below, to which no reference exists meanwhile.
        let mr = unsafe { a.pd.register(std::ptr::null_mut(), u64::MAX, 0, access) }.unwrap();
        let mut bytes = vec![0u8; 5000];
        let sge = Sge { addr: bytes.as_mut_ptr().addr() as u64, len_bytes: 5000, lkey: mr.lkey() };
        b.write(0, &pattern(1, 5000));
        a.qp.post_send([wr(1, SendOp::Read(b.remote(0)), sge)]).unwrap();
        a.sent();
        assert_eq!(bytes, pattern(1, 5000));
    });
}

#[test]
fn the_null_region_sends_zeros_and_drops_received_bytes() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let null = a.pd.register_null(Access::LOCAL_WRITE).unwrap();
        let nothing = Sge { addr: 0x1234, len_bytes: 100, lkey: null.lkey() };
        a.write(0, &pattern(1, 200));
        b.write(0, &pattern(2, 300));
        let payload = Payload::Sgl(smallvec![a.sge(0, 100), nothing, a.sge(100, 100)]);
        a.qp.post_send([SendWr { payload: payload.clone(), ..wr(1, SendOp::Write(b.remote(0)), nothing) }]).unwrap();
        a.sent();
        let expected = [&pattern(1, 200)[..100], &[0; 100], &pattern(1, 200)[100..]].concat();
        assert_eq!(b.read(0, 300), expected);
        b.write(0, &pattern(2, 300));
        a.qp.post_send([SendWr { payload, ..wr(2, SendOp::Read(b.remote(0)), nothing) }]).unwrap();
        a.sent();
        let wanted = pattern(2, 300);
        assert_eq!(a.read(0, 200), [&wanted[..100], &wanted[200..]].concat());
        null.deregister().unwrap();
    });
}
