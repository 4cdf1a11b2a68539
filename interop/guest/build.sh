#!/bin/bash
# Builds the guest of the interoperation tests: Debian's kernel with Soft-RoCE,
# a Debian 12 root file system with the RDMA tools, an initramfs.
#
#   build.sh KERNEL DIRECTORY      KERNEL: 6.1 or 6.12
#
# Writes vmlinuz, initrd.gz and root.img to DIRECTORY/KERNEL. Does nothing if this version
# of the file has built them already. Needs root and apt; installs missing packages.
set -euo pipefail

kernel=$1
lab=$2
here=$(cd "$(dirname "$0")" && pwd)
out=$lab/$kernel
stamp=$(cat "$here/build.sh" "$here/initramfs-init" | sha256sum | cut -d' ' -f1)
[ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ] && exit 0

host_packages=(qemu-system-x86 busybox-static mmdebstrap debian-archive-keyring e2fsprogs cpio kmod xz-utils
    iproute2 tcpdump)
guest_packages=busybox-static,rdma-core,ibverbs-utils,ibverbs-providers,rdmacm-utils,perftest,qperf,nvme-cli
guest_packages+=,iproute2,iputils-ping,kmod,procps,ethtool

# The modules that the initramfs loads, and those that the guest may load later.
boot_modules=(virtio_pci virtio_blk 9pnet_virtio 9p overlay ext4 crc32c_generic)
modules=(virtio_net virtio_console ib_uverbs ib_umad rdma_rxe rdma_cm rdma_ucm
    sch_netem nvme-rdma nvmet-rdma nvmet loop brd null_blk crc32_generic crc32_pclmul crc32c-intel libcrc32c)

say() { echo "interop: $*" >&2; }

install_host_packages() {
    local package missing=()
    for package in "${host_packages[@]}"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    say "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Everything but kernel and modules: a directory that all kernels share and later runs reuse.
make_root() {
    local names
    names=$(sha256sum <<<"$guest_packages" | cut -c1-16)
    root=$lab/root-$names
    [ -e "$root/etc/hostname" ] && return
    say "root file system"
    rm -rf "$root"
    mmdebstrap --quiet --variant=minbase --include="$guest_packages" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$root" > "$lab/mmdebstrap.log" 2>&1 ||
        { tail -5 "$lab/mmdebstrap.log" >&2; exit 1; }
    mkdir -p "$root/lab"
    printf '127.0.0.1 localhost\n::1 localhost\n' > "$root/etc/hosts"
    echo guest > "$root/etc/hostname"
}

# Fetches Debian's package of the kernel with the root file system's apt and unpacks it. Sets $release, $unpacked.
fetch_kernel() {
    local name=linux-image-$kernel-amd64
    [ "$kernel" = 6.1 ] && name=linux-image-amd64
    unpacked=$lab/unpacked-$kernel
    rm -rf "$unpacked"; mkdir -p "$unpacked"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    chroot "$root" apt-get -qq update
    release=$(chroot "$root" apt-cache depends "$name" | sed -n 's/^ *|\?Depends: linux-image-\([0-9]\)/\1/p' | head -1)
    [ -n "$release" ] || { say "apt knows no kernel $kernel"; exit 1; }
    say "kernel $release"
    chroot "$root" sh -c "cd /tmp && apt-get -qq -o APT::Sandbox::User=root download linux-image-$release"
    dpkg -x "$root"/tmp/linux-image-*.deb "$unpacked"
    rm -rf "$root"/tmp/*.deb "$root"/var/lib/apt/lists/*
    # The guest's tools need not know xz.
    find "$unpacked/lib/modules" -name '*.ko.xz' -print0 | xargs -0r -P2 -n64 unxz -f
    depmod -b "$unpacked" "$release"
}

# copy_modules DESTINATION MODULE...: copies these modules and their dependencies
copy_modules() {
    local to=$1/lib/modules/$release module; shift
    mkdir -p "$to"
    for module in "$@"; do
        modprobe -d "$unpacked" -S "$release" --show-depends "$module" 2>/dev/null || say "no module $module"
    done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r module; do
        install -D -m644 "$module" "$to/${module#"$unpacked/lib/modules/$release/"}"
    done
    cp "$unpacked/lib/modules/$release"/modules.{builtin,order,builtin.modinfo} "$to/"
    depmod -b "${to%/lib/modules/*}" "$release"
}

make_image() {
    say "image"
    rm -rf "$root/lib/modules"
    copy_modules "$root" "${boot_modules[@]}" "${modules[@]}"
    # The guest mounts it read-only under an overlay, so it needs neither journal nor checksums.
    rm -f "$out/root.img"
    mke2fs -q -t ext4 -O '^has_journal,^metadata_csum' -m 0 -d "$root" "$out/root.img" 900M
    rm -rf "$root/lib/modules"
}

make_initramfs() {
    local tree=$lab/initramfs-$kernel
    rm -rf "$tree"; mkdir -p "$tree"/{bin,proc,sys,dev,image,writes,root}
    cp "$(command -v busybox)" "$tree/bin/busybox"
    ln -s busybox "$tree/bin/sh"
    copy_modules "$tree" "${boot_modules[@]}"
    install -m755 "$here/initramfs-init" "$tree/init"
    (cd "$tree" && find . | cpio -o -H newc --quiet) | gzip -1 > "$out/initrd.gz"
    rm -rf "$tree"
}

mkdir -p "$out"
install_host_packages
make_root
fetch_kernel
make_image
make_initramfs
cp "$unpacked/boot/vmlinuz-$release" "$out/vmlinuz"
rm -rf "$unpacked"
echo "$release" > "$out/release"
echo "$stamp" > "$out/stamp"
say "ready: $release in $out"
