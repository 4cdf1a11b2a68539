//! The cost of an access: lookup, pin, checks, copy.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use longarm_memory::{Adoption, MrKeys, MrSpec, Region, Registry};
use transport::{Access, Accessor, AtomicOp, Memory, PdId, Sge};
use wire::Qpn;

const RIGHTS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::ZERO_BASED);

struct Setup {
    registry: Registry,
    pd: PdId,
    region: Arc<Region>,
    keys: MrKeys,
}

impl Setup {
    fn new() -> Setup {
        let registry = Registry::new(1);
        let pd = registry.alloc_pd();
        let region = Arc::new(Region::allocate(1 << 20).expect("a megabyte"));
        let keys = registry.register_region(pd, region.clone(), None, RIGHTS).expect("a region");
        Setup { registry, pd, region, keys }
    }

    fn who(&self) -> Accessor {
        Accessor { pd: self.pd, qpn: Qpn::new(7) }
    }

    fn sge(&self, addr: u64, len_bytes: u32) -> Sge {
        Sge { addr, len_bytes, lkey: self.keys.lkey }
    }
}

fn remote(c: &mut Criterion) {
    let setup = Setup::new();
    let (registry, who, rkey) = (&setup.registry, setup.who(), setup.keys.rkey);
    let mut group = c.benchmark_group("remote");
    for len_bytes in [8usize, 64, 1024, 4096] {
        let mut data = vec![5u8; len_bytes];
        group.throughput(Throughput::Bytes(len_bytes as u64));
        group.bench_function(format!("write/{len_bytes}"), |b| {
            b.iter(|| registry.remote_write(who, black_box(rkey), black_box(64), &data));
        });
        group.bench_function(format!("read/{len_bytes}"), |b| {
            b.iter(|| registry.remote_read(who, black_box(rkey), black_box(64), &mut data));
        });
        group.bench_function(format!("bare copy/{len_bytes}"), |b| {
            let span = setup.region.span();
            b.iter(|| span.part(black_box(64), len_bytes).map(|s| s.write(&data)));
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("check", |b| {
        b.iter(|| registry.check_remote(who, black_box(rkey), 64, 4096, Access::REMOTE_WRITE));
    });
    group.bench_function("fetch_add", |b| {
        let op = AtomicOp::FetchAdd { add: 1 };
        b.iter(|| registry.remote_atomic(who, black_box(rkey), 64, op));
    });
    group.finish();
}

fn local(c: &mut Criterion) {
    let setup = Setup::new();
    let (registry, pd) = (&setup.registry, setup.pd);
    let mut group = c.benchmark_group("local");
    for (name, sgl) in [
        ("one entry", vec![setup.sge(64, 8192)]),
        ("four entries", (0..4).map(|i| setup.sge(i * 4096, 1000)).collect()),
    ] {
        let mut data = [9u8; 1024];
        group.throughput(Throughput::Bytes(1024));
        group.bench_function(format!("gather 1024/{name}"), |b| {
            b.iter(|| registry.gather(pd, black_box(&sgl), 500, &mut data));
        });
        group.bench_function(format!("scatter 1024/{name}"), |b| {
            b.iter(|| registry.scatter(pd, black_box(&sgl), 500, &data));
        });
    }
    group.finish();
}

fn registration(c: &mut Criterion) {
    let setup = Setup::new();
    let mut memory = vec![0u8; 1 << 16];
    c.bench_function("register and deregister", |b| {
        let spec = MrSpec::new(setup.pd, memory.as_mut_ptr(), 1 << 16, RIGHTS);
        b.iter(|| {
            // SAFETY: the vector outlives the registration and is not used during it.
            let keys = unsafe { setup.registry.register(&spec) }.expect("plain memory");
            setup.registry.deregister(keys.id)
        });
    });
    c.bench_function("register and deregister a region of the library", |b| {
        b.iter(|| {
            let region = setup.region.clone();
            let keys = setup.registry.register_region(setup.pd, region, None, RIGHTS);
            setup.registry.deregister(keys.expect("room").id)
        });
    });
}

/// Registers memory of the program, all of it touched, and deregisters it. With adoption the memory moves
/// into a memfd and back.
fn adoption(c: &mut Criterion) {
    let mut group = c.benchmark_group("register and deregister");
    for (name, len_bytes) in [("4 KiB", 4 << 10), ("1 MiB", 1 << 20), ("64 MiB", 64 << 20)] {
        // One page more, so that the aligned range has the full number of whole pages.
        let mut memory = vec![1u8; len_bytes + 4096];
        for adopt in [false, true] {
            let setup = Setup::new();
            setup.registry.set_adoption(if adopt { Adoption::Always } else { Adoption::Never });
            let start = memory.as_mut_ptr();
            let start = start.wrapping_add(start.align_offset(4096));
            let spec = MrSpec::new(setup.pd, start, len_bytes as u64, RIGHTS);
            group.bench_function(format!("{name}, {}", if adopt { "adopted" } else { "as it is" }), |b| {
                b.iter(|| {
                    // SAFETY: the vector outlives the registration and is not used during it.
                    let keys = unsafe { setup.registry.register(&spec) }.expect("plain memory");
                    setup.registry.deregister(keys.id)
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, remote, local, registration, adoption);
criterion_main!(benches);
