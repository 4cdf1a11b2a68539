#!/bin/sh
# Installs the Redis clients of the tests, from PyPI and npm, into a directory: python/bin/python and node_modules.
# The tests and `cargo xtask packages` call this. It does nothing if they are there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
exec 9> "$1/lock"
flock 9
cd "$1"
if ! cmp -s "$here/requirements.txt" python/complete; then
    python3 -m venv python
    python/bin/pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    cp "$here/requirements.txt" python/complete
fi
if ! cmp -s "$here/package-lock.json" node_modules/complete; then
    cp "$here/package.json" "$here/package-lock.json" .
    npm ci --silent --no-audit --no-fund --ignore-scripts
    cp package-lock.json node_modules/complete
fi
