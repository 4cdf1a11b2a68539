# Runs Ceph over RDMA in the working directory: a monitor, an OSD that keeps its data in memory, and clients.
# The script puts an object, gets it and compares; then `rados bench` writes, reads and verifies.
set -eu
dir=$PWD
fsid=11111111-2222-3333-4444-555555555555
cat > ceph.conf <<END
[global]
fsid = $fsid
mon_host = v1:127.0.0.1:6789
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_type = async+rdma
ms_bind_msgr2 = false
ms_async_rdma_device_name = la_lo
ms_async_rdma_receive_buffers = 1024
ms_async_rdma_receive_queue_len = 512
ms_async_rdma_send_buffers = 256
ms_async_op_threads = 1
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 1073741824
mon_allow_pool_size_one = true
mon_data = $dir/mon
osd_data = $dir/osd
run_dir = $dir
admin_socket = $dir/\$name.\$pid.asok
log_file = $dir/\$name.log
pid_file = $dir/\$name.pid
keyring = $dir/keyring
END
export CEPH_CONF=$dir/ceph.conf
mkdir mon osd
: > keyring
monmaptool --create --fsid $fsid --addv a '[v1:127.0.0.1:6789]' monmap
ceph-mon --mkfs -i a --monmap monmap --keyring keyring
ceph-mon -f -i a > mon.out 2>&1 &
uuid=$(cat /proc/sys/kernel/random/uuid)
timeout 60 ceph osd new "$uuid" 0
ceph-osd --mkfs -i 0 --osd-uuid "$uuid"
ceph-osd -f -i 0 > osd.out 2>&1 &
timeout 60 ceph osd pool create data 8
head -c 20M /dev/urandom > object
timeout 120 rados -p data put it object
timeout 120 rados -p data get it copy
cmp object copy
timeout 120 rados -p data bench 5 write -b 65536 -t 8 --no-cleanup
timeout 120 rados -p data bench 5 seq -t 8
echo all compared
