# The guest's init, run by bash from the host's directory: network, Soft-RoCE, then
# commands from the host until it says "quit". No rebuild is needed to change it.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t configfs configfs /sys/kernel/config 2>/dev/null
ln -sf /proc/self/fd /dev/fd
ulimit -l unlimited
ulimit -c 0
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0
ip link set lo up
modprobe -a virtio_net virtio_console ib_uverbs rdma_ucm rdma_rxe
until [ -e /sys/class/net/eth0 ]; do sleep 0.05; done
ip link set eth0 up
ip addr add 10.77.0.11/24 dev eth0
ip addr add fd77::b/64 dev eth0 nodad
until [ "$(cat /sys/class/net/eth0/operstate)" = up ]; do sleep 0.05; done
rdma link add rxe0 type rxe netdev eth0
until [ -e /dev/infiniband/uverbs0 ]; do sleep 0.05; done

# The channel: a virtio port. Each line from the host is
#   start ID SECONDS COMMAND   answered by "exit ID STATUS" when it has ended; its output goes to /lab/out/ID
#   stop ID                    ends it
#   quit
for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name")" = longarm ] && channel=/dev/${port##*/}
done
exec 3<>"$channel"
start() { # ID SECONDS COMMAND
    timeout -k 2 "$2" bash -c "$3" > "/lab/out/$1" 2>&1 < /dev/null 3>&- &
    echo $! > "/run/$1"
    wait $!
    echo "exit $1 $?" >&3
}
mkdir -p /lab/out
cd /root
echo "ready $(uname -r)" >&3
while read -r -u 3 verb id rest; do
    case $verb in
    start) start "$id" "${rest%% *}" "${rest#* }" & ;;
    stop) kill "$(cat "/run/$id")" 2>/dev/null ;;
    quit) break ;;
    esac
done
dmesg > /lab/out/dmesg
busybox poweroff -f
