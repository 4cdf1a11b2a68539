# Uses an installed command as an ordinary user: programs.sh LONGARM [PYTHON]
set -eu
longarm=$1
python=${2:-/usr/bin/python3}
"$longarm" --version
"$longarm" run -- ibv_devinfo | grep -A 4 'hca_id:.*la_lo'
"$longarm" pair -- ibv_rc_pingpong -g 0
"$longarm" pair --server-args=-s --client-args='-c -a {server}' -- rping -v -C 3
"$longarm" run --mode namespace -- ls /sys/class/infiniband | grep la_lo
"$longarm" run -- "$python" -c '
import pyverbs.device as d
names = [device.name.decode() for device in d.get_device_list()]
assert "la_lo" in names, names
with d.Context(name="la_lo") as context: print("pyverbs:", context.query_device())
' | head -3
"$longarm" down
