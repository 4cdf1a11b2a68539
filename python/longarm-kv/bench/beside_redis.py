"""The time of one operation, beside redis-py over a Unix socket: `cargo xtask python --time`.

All clients run in turn, several times, and the best time of each counts, as timeit's manual advises.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
import timeit

import longarm_kv
import numpy
import redis


def serve(command, ready):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, ready(process)


def our_address(process):
    return process.stdout.readline().strip().removeprefix("listening on ")


def redis_client(path):
    client = redis.Redis(unix_socket_path=path)
    for _ in range(500):
        try:
            client.ping()
            return client
        except redis.exceptions.ConnectionError:
            time.sleep(0.01)
    raise SystemExit("redis-server does not answer")


def measure(operations, rounds, seconds):
    """The best time of each operation, in microseconds."""
    best = {}
    for _ in range(rounds):
        for name, operation in operations.items():
            timer = timeit.Timer(operation)
            number, took = timer.autorange()
            number = max(1, int(number * seconds / max(took, 1e-9)))
            best[name] = min(best.get(name, 1e9), timer.timeit(number) / number * 1e6)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="time of one measurement")
    options = parser.parse_args()
    directory = tempfile.mkdtemp()
    ours, address = serve([os.environ.get("LONGARM", "longarm"), "kv", "serve", "127.0.0.1:0"], our_address)
    processes, operations = [ours], {}
    table = longarm_kv.Table(address, "default")
    array, long = numpy.zeros(1024, "f4"), numpy.zeros(1 << 18, "f4")
    keys = [f"key {number}" for number in range(100)]
    table.multi_put({key: bytes(64) for key in keys})
    table.put("array", array)
    table.put("long", long)
    operations["GET 64 B", "longarm"] = lambda: table.get("key 7")
    operations["100 GETs of 64 B", "longarm"] = lambda: table.multi_get(keys)
    operations["array 4 KiB", "longarm"] = lambda: table.get_into("array", array)
    operations["array 1 MiB", "longarm"] = lambda: table.get_into("long", long)
    operations["PUT 64 B", "longarm"] = lambda: table.put("key 7", bytes(64))
    if shutil.which("redis-server"):
        path = f"{directory}/redis"
        command = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", directory]
        process, other = serve(command, lambda process: redis_client(path))
        processes.append(process)
        other.mset({key: bytes(64) for key in keys})
        other.set("array", array.tobytes())
        other.set("long", long.tobytes())
        operations["GET 64 B", "redis-py"] = lambda: other.get("key 7")
        operations["100 GETs of 64 B", "redis-py"] = lambda: other.mget(keys)
        operations["array 4 KiB", "redis-py"] = lambda: numpy.copyto(array, numpy.frombuffer(other.get("array"), "f4"))
        operations["array 1 MiB", "redis-py"] = lambda: numpy.copyto(long, numpy.frombuffer(other.get("long"), "f4"))
        operations["PUT 64 B", "redis-py"] = lambda: other.set("key 7", bytes(64))
    try:
        best = measure(operations, options.rounds, options.seconds)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(directory)
    print("| | longarm-kv | redis-py, Unix socket | |\n|---|---:|---:|---:|")
    for what in dict.fromkeys(what for what, _ in best):
        mine, theirs = best[what, "longarm"], best.get((what, "redis-py"))
        beside = f"{theirs:.1f} µs | {theirs / mine:.0f} ×" if theirs else "– | –"
        print(f"| {what} | {mine:.2f} µs | {beside} |")


if __name__ == "__main__":
    main()
