"""The client for asyncio: operations, tasks that share it and are cancelled, Ctrl-C, servers that stop and go."""

import asyncio
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import longarm_kv
import numpy
import pytest
from conftest import SECRET
from longarm_kv import AsyncTable, Table

EXAMPLE = pathlib.Path(__file__).parent.parent / "examples" / "tasks.py"
WAYS = ["one-sided", "rpc", "device", "choose"]


@pytest.fixture
def address(shared_server, table):
    """A server whose table `default` is empty."""
    return shared_server.address


@pytest.mark.parametrize("way", WAYS)
def test_every_operation_is_awaited(address, way):
    async def body():
        async with AsyncTable(address, "default", get=way, timeout=60) as table:
            first = await table.insert("key", b"one")
            assert await table.get_with_version("key") == (b"one", first) and await table.get_with_version("no") is None
            with pytest.raises(longarm_kv.ConflictError) as conflict:
                await table.insert("key", b"x")
            assert conflict.value.version == first
            second = await table.compare_and_put("key", "two", first)
            with pytest.raises(longarm_kv.ConflictError):
                await table.compare_and_put("key", b"x", first)
            with pytest.raises(longarm_kv.ConflictError):
                await table.compare_and_delete("key", first)
            assert await table.get("key") == b"two"
            assert await table.compare_and_delete("key", second) and not await table.delete("key")
            assert await table.get("key") is None and await table.get("key", 7) == 7
            with pytest.raises(longarm_kv.ConflictError):
                await table.update("key", b"x")
            assert [await table.add("count"), await table.add("count", 41)] == [1, 42]
            await table.put("late", b"2", ttl=1000)
            assert 900 < await table.time_to_live("late") <= 1000
            assert await table.persist("late") and await table.time_to_live("late") == math.inf
            assert await table.expire("late", 0) and await table.time_to_live("late") is None

            await table.multi_put({f"many {number}": str(number) for number in range(300)})
            await table.multi_put([("two", "2")])
            values = await table.multi_get([f"many {number}" for number in range(301)])
            assert values == [str(number).encode() for number in range(300)] + [None]
            keys = [key async for key in table.scan("many ", count=7)]
            assert sorted(keys) == sorted(f"many {number}".encode() for number in range(300))
            assert len([key async for key in table]) == 302

            array = numpy.arange(200_000, dtype="f8")
            await table.put("array", array)
            back = numpy.zeros_like(array)
            assert await table.get_into("array", back) == array.nbytes and numpy.array_equal(back, array)
            assert await table.get_into("no such key", back) is None
            with pytest.raises(longarm_kv.InvalidArgumentError, match="only 4"):
                await table.get_into("array", bytearray(4))
            with pytest.raises(TypeError):
                await table.get(1)
            with pytest.raises(longarm_kv.NoOrderError):
                await table.range()
            stats = table.stats()
            ways = {"one-sided": "one_sided_gets", "rpc": "rpc_gets", "device": "device_gets"}
            assert all((stats[name] > 0) == (way == own) or way == "device" for own, name in ways.items() if way in ways)
            assert way not in ways or stats[ways[way]] > 300
        with pytest.raises(longarm_kv.ClosedError):
            await table.get("key")

    asyncio.run(body())


def test_ranges_and_the_way_to_put(shared_server):
    async def body():
        async with AsyncTable(shared_server.address, "ordered", timeout=60) as table:
            await table.multi_put((f"{number:03}", str(number)) for number in range(100))
            pair = lambda number: (f"{number:03}".encode(), str(number).encode())
            assert await table.range("010", "020") == [pair(number) for number in range(10, 20)]
            assert await table.range(start="098") == [pair(98), pair(99)]
            assert await table.range(limit=3) == [pair(0), pair(1), pair(2)]
        async with AsyncTable(shared_server.address, "shared", put="one-sided", timeout=60) as table:
            for number in range(20):
                await table.put("key", str(number))
            assert await table.get("key") == b"19" and table.stats()["one_sided_puts"] == 19
        with pytest.raises(longarm_kv.InvalidArgumentError, match="writable"):
            await AsyncTable(shared_server.address, "default", put="one-sided")

    asyncio.run(body())
    with Table(shared_server.address, "shared", put="one-sided") as table:
        for number in range(20):
            table["key"] = str(number)
        assert table.stats()["one_sided_puts"] == 20
    with Table(shared_server.address, "default", get="device") as table:
        table["key"] = "value"
        assert table["key"] == b"value" and table.stats()["device_gets"] == 1


def test_many_tasks_share_a_table(address):
    async def work(table, number):
        for turn in range(30):
            await table.put(f"key {number}", str(turn))
            assert await table.get(f"key {number}") == str(turn).encode()
            await table.add("turns")

    async def body():
        async with AsyncTable(address, "default", timeout=60) as table:
            await asyncio.gather(*(work(table, number) for number in range(40)))
            assert await table.get("turns") == b"1200" and table.stats()["attached"] == 1

    asyncio.run(body())
    # Another event loop, and loops of several threads.
    threads = [threading.Thread(target=asyncio.run, args=(body_of_thread(address, number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def body_of_thread(address, number):
    async with AsyncTable(address, "default", timeout=60) as table:
        for turn in range(50):
            await table.put(f"thread {number}", str(turn))
            assert await table.get(f"thread {number}") == str(turn).encode()


def test_a_stopped_server_hinders_no_get_and_no_other_task(server):
    async def body():
        async with AsyncTable(server.address, "default", timeout=1) as table:
            await table.put("key", b"value")
            server.signal(signal.SIGSTOP)
            try:
                waiting = asyncio.create_task(table.put("key", b"other"))
                turns = 0
                while not waiting.done():
                    assert await table.get("key") == b"value"
                    turns += 1
                    await asyncio.sleep(0.001)
                assert turns > 10
                with pytest.raises(longarm_kv.NoAnswerError) as lost:
                    await waiting
                assert lost.value.executed in ("no", "unknown")
            finally:
                server.signal(signal.SIGCONT)

    asyncio.run(body())


def test_a_cancelled_task_ends_at_once_and_the_table_remains(server):
    async def body():
        async with AsyncTable(server.address, "default", timeout=3600) as table:
            await table.put("key", b"value")
            server.signal(signal.SIGSTOP)
            waiting = [asyncio.create_task(table.put(f"key {number}", b"x")) for number in range(20)]
            # Without an end of its own the task would wait for an hour.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(table.add("count"), 0.05)
            for task in waiting:
                task.cancel()
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results)
            assert await table.get("key") == b"value"
            server.signal(signal.SIGCONT)
            await table.put("key", b"again")
            assert await table.get("key") == b"again"

    asyncio.run(body())


CTRL_C = """
import asyncio, signal, sys, longarm_kv
# A shell lets programs in the background ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
async def body():
    async with longarm_kv.AsyncTable(sys.argv[1], "default", timeout=3600) as table:
        print("waits", flush=True)
        sys.stdin.readline()
        try:
            await table.put("key", b"value")
        except asyncio.CancelledError:
            print("cancelled", flush=True)
            raise
try:
    asyncio.run(body())
except KeyboardInterrupt:
    print("ended", flush=True)
"""


def test_ctrl_c_ends_a_wait_at_once(server):
    command = [sys.executable, "-c", CTRL_C, server.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "waits\n"
        server.signal(signal.SIGSTOP)
        try:
            program.stdin.write("\n")
            program.stdin.flush()
            # It waits for an hour, or has not begun to.
            time.sleep(0.3)
            program.send_signal(signal.SIGINT)
            assert program.stdout.readline() == "cancelled\n" and program.stdout.readline() == "ended\n"
        finally:
            server.signal(signal.SIGCONT)
            program.kill()


def test_a_table_finds_a_server_that_was_killed_and_started_again(server):
    async def body():
        table = await AsyncTable(server.address, "default", timeout=60)
        await table.put("key", b"value")
        server.kill()
        server.start(server.address)
        assert await asyncio.gather(*(table.get("key") for _ in range(5))) == [None] * 5
        await table.put("key", b"new")
        assert await table.get("key") == b"new" and table.stats()["attached"] == 2
        await table.close()
        assert table.closed and "closed" in repr(table)

    asyncio.run(body())


def test_tables_that_are_not_open_say_so(shared_server):
    async def body():
        table = AsyncTable(shared_server.address, "default")
        assert table.closed
        with pytest.raises(longarm_kv.ClosedError):
            await table.get("key")
        async with AsyncTable(shared_server.address, "vault", secret=SECRET) as vault:
            await vault.put("key", b"value")
            assert vault.client is not None
        with pytest.raises(longarm_kv.NotAuthorizedError):
            await AsyncTable(shared_server.address, "vault")
        with pytest.raises(longarm_kv.NoSuchTableError):
            await AsyncTable(shared_server.address, "nothing")
        with pytest.raises(longarm_kv.InvalidArgumentError, match="one-sided, rpc, device, choose"):
            AsyncTable(shared_server.address, "default", get="by magic")
        with pytest.raises(longarm_kv.NoAnswerError):
            await AsyncTable("127.0.0.1:9", "default", timeout=0.2)
        operation = (await table)._table.get("key", None)
        await operation
        with pytest.raises(RuntimeError, match="ended already"):
            await operation

    asyncio.run(body())


def test_a_forked_process_opens_a_table_of_its_own(address):
    async def body():
        async with AsyncTable(address, "default", timeout=60) as table:
            child = os.fork()
            if child == 0:
                try:
                    table._table.get("key", None)
                except longarm_kv.ClosedError as error:
                    os._exit(0 if "forked" in str(error) else 2)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
            await table.put("key", b"value")

    asyncio.run(body())


def test_the_example_runs(shared_server):
    run = subprocess.run([sys.executable, EXAMPLE, shared_server.address], capture_output=True, text=True, check=True)
    assert "1000 visits" in run.stdout
