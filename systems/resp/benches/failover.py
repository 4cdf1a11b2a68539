"""The time from the death of a primary to the first answer of the next one (K10 of docs/kv.md).

    python3 systems/resp/benches/failover.py target/release/longarm [TERM_SECONDS] [KILLS]

Three servers with one backup, etcd, and a client of their doors for Redis clients, all on this machine. The script kills a
server (SIGKILL) while the client sets a key of it, and counts values that were answered and are gone.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time

PORTS = {"a": 7531, "b": 7532, "c": 7533}
DOOR = 100
PATIENCE_S = 15


class Door:
    """A connection to the door of a server."""

    def __init__(self, name):
        self.socket = socket.create_connection(("127.0.0.1", PORTS[name] + DOOR), timeout=1)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.replies = self.socket.makefile("rb")

    def ask(self, *words):
        request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(request)
        line = self.replies.readline()
        if not line:
            raise OSError("the door has ended the connection")
        is_value = line[:1] == b"$" and line[1:3] != b"-1"
        return self.replies.readline().strip() if is_value else line.strip()


class Cluster:
    def __init__(self, longarm, term, directory):
        self.longarm, self.term = longarm, term
        self.etcd = self.run(["etcd", "--data-dir", f"{directory}/etcd", "--log-level", "error"])
        time.sleep(1)
        self.servers = {name: self.start(name) for name in PORTS}

    def run(self, command):
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self, name):
        doors = ",".join(f"{other}=127.0.0.1:{port + DOOR}" for other, port in PORTS.items())
        serve = [self.longarm, "kv", "serve", f"127.0.0.1:{PORTS[name]}", "--table", "default,max-memory=256M"]
        member = ["--etcd", "http://127.0.0.1:2379/failover", "--name", name, "--form-with", "3", "--term", self.term]
        return self.run(serve + member + ["--resp", f"127.0.0.1:{PORTS[name] + DOOR}", "--resp-doors", doors])

    def ask(self, *words):
        servers = ",".join(f"127.0.0.1:{port}" for port in PORTS.values())
        command = [self.longarm, "kv", *words, "-s", servers]
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout

    def wait_for_backups(self):
        for _ in range(200):
            status = self.ask("status")
            is_whole = all(words not in status for words in ("backups: none", "joining", "nobody"))
            if is_whole and "3 servers" in status and "backups:" in status:
                return
            time.sleep(0.3)
        sys.exit("the cluster has no backups")

    def primary_with_key(self, wanted):
        for name in wanted:
            door = Door(name)
            for number in range(200):
                key = b"key-%d" % number
                if door.ask(b"SET", key, b"0") == b"+OK":
                    return name, door, key
        sys.exit("nobody serves a key")

    def end(self):
        for process in [*self.servers.values(), self.etcd]:
            process.kill()
            process.wait()


def fail_over(cluster, wanted):
    """Kills a primary. Returns the seconds to the next answer, and whether a value was lost."""
    victim, door, key = cluster.primary_with_key(wanted)
    others = [name for name in PORTS if name != victim]
    began, killed, number, answered, is_lost = time.time(), None, 0, 0, False
    while True:
        number += 1
        if killed is None and time.time() - began > 0.7:
            cluster.servers[victim].kill()
            cluster.servers[victim].wait()
            killed = time.time()
        try:
            if killed is not None:
                found = door.ask(b"GET", key)
                is_lost |= found.isdigit() and int(found) < answered
            if door.ask(b"SET", key, b"%d" % number) == b"+OK":
                answered = number
                if killed is not None:
                    break
        except OSError:
            pass
        if killed is not None:
            if time.time() - killed > PATIENCE_S:
                sys.exit("no other server has taken over")
            time.sleep(0.002)
            try:
                door = Door(others[number % 2])
            except OSError:
                pass
    gap = time.time() - killed
    cluster.servers[victim] = cluster.start(victim)
    cluster.wait_for_backups()
    cluster.ask("rebalance")
    return gap, is_lost


def main():
    longarm, term, kills = sys.argv[1:] + ["0.5", "6"][len(sys.argv) - 2 :]
    with tempfile.TemporaryDirectory() as directory:
        os.environ["LONGARM_RUNTIME_DIR"] = directory
        cluster = Cluster(longarm, term, directory)
        try:
            cluster.wait_for_backups()
            names = sorted(PORTS)
            done = [fail_over(cluster, names[turn % 3 :] + names[: turn % 3]) for turn in range(int(kills))]
        finally:
            cluster.end()
    gaps = sorted(gap for gap, _ in done)
    print(f"term {term} s: {gaps[0]:.2f} to {gaps[-1]:.2f} s, median {gaps[len(gaps) // 2]:.2f} s, {len(gaps)} kills")
    print(f"lost: {sum(is_lost for _, is_lost in done)}")


main()
