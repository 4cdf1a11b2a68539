#!/bin/sh
# Redis' own test suite against a door: `redis-suite.sh LONGARM [UNIT…]`, as root. It takes Debian's sources of Redis into a
# temporary directory, and runs units of them by the suite's mode for external servers. docs/redis.md has the results.
set -eu
longarm=$(realpath "$1")
shift
units=${*:-unit/type/string unit/type/incr unit/expire unit/keyspace unit/scan unit/multi unit/pubsub unit/protocol unit/quit unit/other unit/introspection}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
mkdir -p lists/partial
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" >sources.list
apt="apt-get -q -o Dir::Etc::sourcelist=$dir/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::Lists=$dir/lists"
$apt update >apt.log
$apt source --download-only redis >>apt.log 2>&1
tar -xzf redis_*.orig.tar.gz
cd redis-*/
for program in redis-server redis-cli redis-benchmark; do ln -s "$(command -v $program)" "src/$program"; done
# The suite's start of an external server uses functions and settings, which the door has not.
sed -i 's/^    r function flush$/    catch {r function flush}/; s/^        r config set \$param \$val$/        catch {r config set $param $val}/' \
    tests/support/server.tcl
"$longarm" kv serve 127.0.0.1:7480 --resp 127.0.0.1:6399 >"$dir/server.log" 2>&1 &
for _ in $(seq 100); do
    redis-cli -p 6399 ping 2>/dev/null | grep -q PONG && break
    sleep 0.1
done
for unit in $units; do
    out=$dir/$(echo "$unit" | tr / _)
    timeout 300 tclsh tests/test_helper.tcl --host 127.0.0.1 --port 6399 --singledb --single "$unit" --clients 1 --durable \
        --dont-clean --tags "-needs:debug -needs:repl -needs:save -slow -external:skip" >"$out" 2>&1 || true
    sed -i 's/\x1b\[[0-9;]*m//g' "$out"
    echo "$unit: $(grep -c '^\[ok\]' "$out") passed, $(grep -c '^\[err\]' "$out") failed"
    grep -A1 '^\[err\]' "$out" | grep -v '^--' | cut -c1-160 | sed 's/^/    /' || true
done
