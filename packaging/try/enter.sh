# Runs a command in another root file system, as on a machine of its own: enter.sh ROOT COMMAND...
# The caller has made namespaces (unshare). A pivot instead of chroot: only then may users inside make namespaces.
root=$1
shift
ip link set lo up
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do
    touch "dev/$node"
    mount --bind "/dev/$node" "dev/$node"
done
ln -s /proc/self/fd dev/fd
mkdir -m 1777 dev/shm
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mkdir -p old-root
pivot_root . old-root
cd /
umount --lazy old-root
rmdir old-root
exec env --ignore-environment HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
