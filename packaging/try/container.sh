# Builds the container's recipe on a Debian in a folder, and runs it: container.sh BASE_ROOT CONTEXT
set -eu
base=$1 context=$2
store=$(mktemp -d)
buildah() { command buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$@"; }
trap 'buildah rm --all >/dev/null; buildah rmi --all --force >/dev/null; rm -rf "$store"' EXIT
container=$(buildah from scratch)
mounted=$(buildah mount "$container")
cp --archive "$base/." "$mounted"
buildah unmount "$container" >/dev/null
buildah commit --quiet "$container" longarm-base >/dev/null
buildah build --isolation chroot --build-arg BASE=localhost/longarm-base --tag longarm "$context"
container=$(buildah from localhost/longarm)
buildah run --isolation chroot "$container" -- longarm --version
buildah run --isolation chroot "$container" -- id -u | grep -v '^0$'
buildah run --isolation chroot "$container" -- longarm run --mode plain -- ibv_devinfo | grep 'hca_id:.*la_'
buildah run --isolation chroot "$container" -- longarm demo --verify-only
