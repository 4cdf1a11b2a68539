//! Programs whose two sides synchronize by files: storage, and the migration of a virtual machine.

use crate::case::{Case, Judge};
use crate::tables::ProgramFamily;

/// The destination of the migration; it ends when the other side makes a file.
const MIGRATION_DESTINATION: &str = "'{ until [ -e migrated ]; do sleep 0.1; done; echo pmemsave 0 33554432 b.mem; echo quit; sleep 2; } | \
    qemu-system-x86_64 -accel tcg -m 32 -display none -serial none -nodefaults -monitor stdio \
    -incoming rdma:127.0.0.1:4444 >/dev/null; touch over'";
/// The source: stops, saves its memory and migrates. It tries again until the destination listens.
const MIGRATION_SOURCE: &str = "'head -c 8M /dev/urandom > data; \
    { echo stop; echo pmemsave 0 33554432 a.mem; for i in 1 2 3 4 5 6; do \
    echo migrate rdma:{server}:4444; sleep 1; done; echo quit; } | \
    qemu-system-x86_64 -accel tcg -m 32 -display none -serial none -nodefaults -monitor stdio \
    -device loader,addr=0x1000000,file=data,force-raw=on >/dev/null; touch migrated; \
    until [ -e over ]; do sleep 0.1; done; cmp a.mem b.mem && cmp -n 8388608 -i 16777216:0 b.mem data; echo end $?'";

pub(crate) const QEMU: ProgramFamily = ProgramFamily {
    title: "QEMU: migration over RDMA, the guest's memory compared",
    cases: &[Case::commands(MIGRATION_DESTINATION, MIGRATION_SOURCE, Judge::Says(&["client│ end 0"]))
        .named("qemu-system-x86_64")
        .verified()],
};

/// Serves a disk, and compares it with the data when the other side has ended.
const DISK_SERVER: &str = "'truncate -s 16M disk; tgtd -f --iser pool_sz_mb=64 >tgtd.log 2>&1 & \
    adm=\"tgtadm --lld iser --mode\"; \
    until $adm target --op new --tid 1 -T iqn.x:disk 2>/dev/null; do sleep 0.1; done; \
    $adm logicalunit --op new --tid 1 --lun 1 -b $PWD/disk; \
    $adm target --op bind --tid 1 -I ALL; $adm target --op bind --tid 1 -Q iqn.2008-11.org.linux-kvm; touch ready; \
    until [ -e over ]; do sleep 0.1; done; kill $!; cmp -n 8388608 disk data; echo end $?'";
/// Writes and reads the disk. libiscsi refuses requests of 512 KiB and more over iSER.
const DISK_CLIENT: &str = "'until [ -e ready ]; do sleep 0.1; done; head -c 8M /dev/urandom > data; split -b 256k data part.; \
    at=0; for part in part.*; do set -- \"$@\" -c \"write -s $part ${at}k 256k\"; at=$((at + 256)); done; \
    url=iser://{server}/iqn.x:disk/1; qemu-io -f raw \"$@\" -c flush $url >/dev/null && \
    qemu-img dd -f raw -O raw bs=256k count=32 if=$url of=copy && cmp copy data; echo end $?; touch over'";

pub(crate) const ISER: ProgramFamily = ProgramFamily {
    title: "tgt and libiscsi: a disk over iSER, written, read back and compared",
    cases: &[Case::commands(DISK_SERVER, DISK_CLIENT, Judge::Says(&["server│ end 0", "client│ end 0"]))
        .named("tgtd; qemu-io, qemu-img")
        .environment("TGT_IPC_SOCKET=tgt-socket")
        .verified()],
};

pub(crate) const RPMA: ProgramFamily = ProgramFamily {
    title: "librpma: a program of ours that writes, flushes, reads and writes atomically",
    cases: &[Case::pair("./rpma", "", Judge::Says(&["server│ data compared", "client│ data compared"]))
        .named("librpma")
        .server("server 127.0.0.1")
        .client("client {server}")
        .verified()],
};
