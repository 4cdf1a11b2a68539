# The Debian package on Debian's smallest system: deb-minimal.sh FILE
. /packages/common.sh
dpkg --install "/packages/$1"
test -z "$(dpkg --verify longarm)" || fail "files differ from the package's list"
describes /usr
as_tester longarm devices
as_tester longarm demo --verify-only
rm -r /home/tester/longarm-demo
as_tester longarm down
if as_tester longarm run -- ibv_devinfo; then fail "a program that is not there was run"; fi
dpkg --purge longarm
nothing_left /
