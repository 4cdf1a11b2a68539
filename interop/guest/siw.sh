#!/bin/bash
# Builds siw.ko, the software iWARP driver, for the guest: Debian's kernels lack it, Debian's
# sources have it.
#
#   siw.sh KERNEL DIRECTORY      KERNEL: 6.1 or 6.12; run build.sh for it first
#
# Writes siw.ko to DIRECTORY/KERNEL. Does nothing if it is there for that kernel. Needs root and apt.
set -euo pipefail

kernel=$1
lab=$2
out=$lab/$kernel
release=$(cat "$out/release")
[ "$(cat "$out/siw.release" 2>/dev/null)" = "$release" ] && exit 0

say() { echo "interop: $*" >&2; }

missing=()
for package in make gcc-12 libc6-dev xz-utils; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} != 0 ]; then
    say "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

say "siw for $release"
work=$lab/siw-$kernel
rm -rf "$work"; mkdir -p "$work"/{packages,headers,source}
trap 'rm -rf "$work"' EXIT

# The apt of the guest's root file system fetches the packages.
root=$(ls -td "$lab"/root-* | head -1)
common=linux-headers-${release%-amd64}-common
cp /etc/resolv.conf "$root/etc/resolv.conf"
chroot "$root" apt-get -qq update
kbuild=$(chroot "$root" apt-cache depends "linux-headers-$release" | sed -n 's/^ *|\?Depends: \(linux-kbuild-.*\)/\1/p' | head -1)
for package in "linux-headers-$release" "$common" "$kbuild" "linux-source-$kernel"; do
    chroot "$root" sh -c "cd /tmp && apt-get -qq -o APT::Sandbox::User=root download $package"
done
mv "$root"/tmp/*.deb "$work/packages/"
rm -rf "$root"/var/lib/apt/lists/*

for package in "$work"/packages/linux-{headers,kbuild}-*.deb; do dpkg -x "$package" "$work/headers"; done
headers=$work/headers/usr/src/linux-headers-$release
# Its Makefile names the common half by an absolute path.
sed -i "s,^include .*,include $work/headers/usr/src/$common/Makefile," "$headers/Makefile"
dpkg --fsys-tarfile "$work"/packages/linux-source-*.deb | tar xO "./usr/src/linux-source-$kernel.tar.xz" |
    tar xJ -C "$work/source" --strip-components=5 "linux-source-$kernel/drivers/infiniband/sw/siw"
make -s -j2 -C "$headers" M="$work/source" CONFIG_RDMA_SIW=m CONFIG_DEBUG_INFO_BTF_MODULES= modules \
    > "$lab/siw-$kernel.log" 2>&1 || { tail -5 "$lab/siw-$kernel.log" >&2; exit 1; }
cp "$work/source/siw.ko" "$out/siw.ko"
echo "$release" > "$out/siw.release"
