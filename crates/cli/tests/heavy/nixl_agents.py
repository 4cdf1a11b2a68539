"""Two NIXL agents over UCX: WRITE and READ of 8 MiB, compared."""
import sys
import time
import numpy as np
from nixl._api import nixl_agent, nixl_agent_config

LEN = 8 << 20
IP, PORT = "127.0.0.1", 5555
PATIENCE_SECONDS = 30
pattern = (np.arange(LEN) * 7 % 251).astype(np.uint8)


def wait_for(what):
    start = time.time()
    while not (found := what()):
        assert time.time() - start < PATIENCE_SECONDS, "nothing came"
        time.sleep(0.001)
    return found


def open_agent(name, port, memory):
    agent = nixl_agent(name, nixl_agent_config(True, True, port, backends=["UCX"]))
    place = [(memory.ctypes.data, LEN, 0)]
    agent.register_memory(agent.get_reg_descs([(*place[0], "")], "DRAM"))
    return agent, agent.get_xfer_descs(place, "DRAM")


def target():
    memory = np.zeros(LEN, dtype=np.uint8)
    agent, place = open_agent("target", PORT, memory)
    wait_for(lambda: agent.check_remote_metadata("initiator"))
    agent.send_notif("initiator", agent.get_serialized_descs(place))
    wait_for(lambda: agent.check_remote_xfer_done("initiator", b"written"))
    assert (memory == pattern).all(), "WRITE differs"
    memory[:] = pattern[::-1]
    agent.send_notif("initiator", b"readable")
    wait_for(lambda: agent.check_remote_xfer_done("initiator", b"read"))
    print("data compared")


def initiator():
    memory = pattern.copy()
    agent, local = open_agent("initiator", 0, memory)
    agent.fetch_remote_metadata("target", IP, PORT)
    agent.send_local_metadata(IP, PORT)
    heard = lambda: agent.get_new_notifs().get("target")
    remote = agent.deserialize_descs(wait_for(heard)[0])
    wait_for(lambda: agent.check_remote_metadata("target"))

    def transfer(operation, note):
        handle = agent.initialize_xfer(operation, local, remote, "target", note)
        state = agent.transfer(handle)
        while state != "DONE":
            assert state != "ERR", operation
            state = agent.check_xfer_state(handle)
        agent.release_xfer_handle(handle)

    transfer("WRITE", b"written")
    wait_for(heard)
    transfer("READ", b"read")
    assert (memory == pattern[::-1]).all(), "READ differs"
    print("data compared")
    sys.stdout.flush()
    time.sleep(1)  # The note must arrive before the agent goes.


{"target": target, "initiator": initiator}[sys.argv[1]]()
