# The command that `cargo install` has built, alone: cargo.sh FILE
. /packages/common.sh
as_tester mkdir -p .cargo/bin
install --owner=tester "/packages/$1" /home/tester/.cargo/bin/longarm
as_tester sh /packages/programs.sh /home/tester/.cargo/bin/longarm
echo "== where nothing can be executed"
mkdir /mnt/noexec
mount -t tmpfs -o noexec,uid=tester,mode=700 tmpfs /mnt/noexec
if said=$(as_tester env LONGARM_RUNTIME_DIR=/mnt/noexec/run .cargo/bin/longarm run -- ibv_devinfo 2>&1); then
    fail "a library was loaded from a file system without programs"
fi
echo "$said" | grep noexec || fail "$said"
umount --lazy /mnt/noexec
is_not_the_systems
rm /home/tester/.cargo/bin/longarm
nothing_left /
