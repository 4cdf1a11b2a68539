# Starts the compose file, kills servers, then kills all, and reads what was written: compose.sh PACKAGES
#
# PACKAGES is the folder that `cargo xtask package deb container` fills. Needs root, podman, podman-compose, debootstrap, netavark,
# aardvark-dns, iptables and Debian's packages. Debian's etcd stands for the image of the compose file, so that no registry is needed.
# It replaces podman's images of these names, and removes them at the end: run it on a machine for tests.
set -eu
packages=$(realpath "$1")
compose=$(realpath "$(dirname "$0")/../compose/compose.yaml")
keys=200
work=$(mktemp -d)
mkdir -p "$work/packaging/compose" "$work/base"
cp "$compose" "$work/packaging/compose/"
cd "$work"

composed() { podman-compose -f packaging/compose/compose.yaml "$@" >/dev/null 2>&1; }
end() {
    composed down || true
    podman volume rm --force compose_etcd compose_kv-a compose_kv-b compose_kv-c >/dev/null 2>&1 || true
    podman rmi --force longarm longarm-try-client quay.io/coreos/etcd:v3.5.21 docker.io/library/debian:bookworm-slim >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap end EXIT

# image NAME PACKAGES...: a Debian with packages.
image() {
    name=$1
    shift
    printf 'FROM docker.io/library/debian:bookworm-slim\nRUN apt-get update && apt-get install -y --no-install-recommends %s\n' "$*" |
        podman build --quiet --tag "$name" - >/dev/null
}

# in_network COMMAND...: as a client in the network of the servers.
in_network() { podman run --rm --network compose_default longarm-try-client "$@"; }

# has_all SERVER: all keys have their values, for a client that asks this server first.
has_all() {
    found=$(in_network sh -c "seq 1 $keys | sed 's/.*/get key&/' | redis-cli -c -h $1" | grep -c '^value' || true)
    test "$found" = $keys || { echo "compose: $found of $keys keys by $1" >&2; exit 1; }
    echo "compose: all $keys keys by $1"
}

# until_served: the servers know who serves all slots, and each slot has a backup.
until_served() {
    for _ in $(seq 1 60); do
        status=$(podman exec "compose_kv-$1_1" longarm kv status -s "kv-$1:7480" 2>/dev/null || true)
        case $status in
            *"backups: none"* | *nobody* | "") sleep 1 ;;
            *) return 0 ;;
        esac
    done
    echo "compose: not served: $status" >&2
    exit 1
}

debootstrap --variant=minbase bookworm base http://deb.debian.org/debian >/dev/null
tar -C base -c . | podman import --quiet - docker.io/library/debian:bookworm-slim >/dev/null
image quay.io/coreos/etcd:v3.5.21 etcd-server
image longarm-try-client redis-tools
podman build --quiet --tag longarm "$packages" >/dev/null
head -c 32 /dev/urandom >cluster-secret
chmod 644 cluster-secret

composed up -d
until_served a
in_network sh -c "seq 1 $keys | sed 's/.*/set key& value&/' | redis-cli -c -h kv-a" >/dev/null
has_all kv-a
podman kill compose_kv-a_1 >/dev/null
sleep 5
has_all kv-b
podman start compose_kv-a_1 >/dev/null
until_served a
podman kill compose_etcd_1 compose_kv-a_1 compose_kv-b_1 compose_kv-c_1 >/dev/null
podman start compose_etcd_1 compose_kv-a_1 compose_kv-b_1 compose_kv-c_1 >/dev/null
until_served c
has_all kv-c
