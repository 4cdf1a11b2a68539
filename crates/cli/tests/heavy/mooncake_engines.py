"""Two Mooncake transfer engines: WRITE and READ of 8 MiB, compared. They synchronize by files."""
import os
import sys
import time
import numpy as np
from mooncake.engine import TransferEngine

LEN = 8 << 20
PATIENCE_SECONDS = 30
pattern = (np.arange(LEN) * 7 % 251).astype(np.uint8)
memory = np.zeros(LEN, dtype=np.uint8)


def wait_for(name):
    start = time.time()
    while not os.path.exists(name):
        assert time.time() - start < PATIENCE_SECONDS, name
        time.sleep(0.01)
    with open(name) as file:
        return file.read()


def tell(name, what=""):
    with open(name + ".new", "w") as file:
        file.write(what)
    os.rename(name + ".new", name)


def target(engine):
    tell("at", f"127.0.0.1:{engine.get_rpc_port()} {memory.ctypes.data}")
    wait_for("written")
    assert (memory == pattern).all(), "WRITE differs"
    memory[:] = pattern[::-1]
    tell("readable")
    wait_for("over")


def initiator(engine):
    session, addr = wait_for("at").split()
    memory[:] = pattern
    assert engine.transfer_sync_write(session, memory.ctypes.data, int(addr), LEN) == 0
    tell("written")
    wait_for("readable")
    assert engine.transfer_sync_read(session, memory.ctypes.data, int(addr), LEN) == 0
    assert (memory == pattern[::-1]).all(), "READ differs"
    tell("over")


engine = TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "la_lo") == 0
assert engine.register_memory(memory.ctypes.data, LEN) == 0
{"target": target, "initiator": initiator}[sys.argv[1]](engine)
print("data compared")
sys.stdout.flush()
os._exit(0)  # Its threads do not end by themselves.
