#!/bin/sh
# The time until a server that was killed answers again, beside Redis with its AOF (K13 of docs/kv.md).
#
#     sh systems/resp/benches/restart.sh target/release/longarm [KEYS]
#
# redis-benchmark sets KEYS random keys of 1,000 bytes in both (1,000,000 without this: 630,000 different ones, 0.8 GB).
set -eu
longarm=$1 keys=${2:-1000000}
dir=$(mktemp -d)
export LONGARM_RUNTIME_DIR="$dir"
trap 'kill -9 $server 2>/dev/null || true; rm -rf "$dir"' EXIT
server=

start() {
    case $1 in
    redis)
        redis-server --port 6401 --save '' --appendonly yes --appendfsync everysec --dir "$dir" >"$dir/redis.log" 2>&1 &
        ;;
    longarm)
        "$longarm" kv serve 127.0.0.1:7777 --resp 127.0.0.1:6402 --fsync everysec --data "$dir/data" \
            --table "default,max-memory=3G,keys=$keys" >"$dir/longarm.log" 2>&1 &
        ;;
    esac
    server=$!
}

# Milliseconds until a server answers, and its keys.
answers() {
    began=$(date +%s%N)
    until redis-cli -p "$1" dbsize 2>/dev/null | grep -qE '^[0-9]+$'; do sleep 0.02; done
    echo "$2: $((($(date +%s%N) - began) / 1000000)) ms, $(redis-cli -p "$1" dbsize) keys"
}

for system in redis:6401 longarm:6402; do
    name=${system%:*} port=${system#*:}
    start "$name"
    answers "$port" "$name, empty"
    redis-benchmark -p "$port" -t set -r "$keys" -n "$keys" -d 1000 -P 32 -q >/dev/null
    sleep 3
    for _ in 1 2 3; do
        kill -9 $server
        sleep 0.5
        start "$name"
        answers "$port" "$name, again"
    done
    kill -9 $server
done
