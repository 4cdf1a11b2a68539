# The Debian package beside Debian's RDMA programs: deb.sh FILE
. /packages/common.sh
dpkg --install "/packages/$1"
is_not_the_systems
as_tester sh /packages/programs.sh longarm
dpkg --purge longarm
nothing_left /
as_tester ldd /usr/bin/ibv_devices | grep 'libibverbs.so.1 => /' || fail "the system's own library is gone"
