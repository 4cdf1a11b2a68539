"""Servers that stop and go, threads, tenants, processes that are forked."""

import os
import signal
import threading
import time

import longarm_kv
import pytest
from conftest import SECRET
from longarm_kv import Table


def test_a_stopped_server_hinders_no_get(server):
    with Table(server.address, "default", timeout=0.3) as table:
        table.put("key", b"value")
        server.signal(signal.SIGSTOP)
        try:
            for _ in range(1000):
                assert table.get("key") == b"value"
            with pytest.raises(longarm_kv.NoAnswerError) as lost:
                table.put("key", b"other")
            assert lost.value.executed in ("no", "unknown")
        finally:
            server.signal(signal.SIGCONT)
    assert table.closed


def test_a_table_finds_a_server_that_was_killed_and_started_again(server):
    table = Table(server.address, "default", timeout=60)
    table.put("key", b"value")
    server.kill()
    server.start(server.address)
    assert table.get("key") is None
    table.put("key", b"new")
    assert table.get("key") == b"new" and table.stats()["attached"] == 2


def test_other_threads_run_while_one_waits(server):
    with Table(server.address, "default", timeout=1) as table:
        server.signal(signal.SIGSTOP)
        try:
            errors = []

            def wait():
                try:
                    table.put("key", b"value")
                except longarm_kv.NoAnswerError as error:
                    errors.append(error)

            waiting = threading.Thread(target=wait)
            waiting.start()
            turns = 0
            while waiting.is_alive():
                turns += 1
                time.sleep(0.001)
            # Without the interpreter's lock this thread would have had one turn.
            assert turns > 10 and len(errors) == 1
        finally:
            server.signal(signal.SIGCONT)


def test_threads_share_a_table(table):
    def work(number):
        for turn in range(200):
            table.put(f"key {number}", str(turn))
            assert table.get(f"key {number}") == str(turn).encode()
            table.add("turns")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table.get("turns") == b"1600"


def test_only_the_secret_opens_a_table(shared_server):
    address = shared_server.address
    with Table(address, "vault", secret=SECRET) as vault:
        vault.put("key", b"value")
        assert vault.get("key") == b"value" and vault.client is not None
    for secret in [None, b"another secret of the tests"]:
        with pytest.raises(longarm_kv.NotAuthorizedError):
            Table(address, "vault", secret=secret)
    with pytest.raises(longarm_kv.WrongServerError):
        Table(address, "default", secret=SECRET)
    with pytest.raises(longarm_kv.NoSuchTableError):
        Table(address, "nothing")
    with pytest.raises(longarm_kv.InvalidArgumentError, match="at least 16"):
        Table(address, "vault", secret="short")
    with pytest.raises(longarm_kv.InvalidArgumentError, match="one-sided, rpc, device, choose"):
        Table(address, "default", get="by magic")


def test_a_full_table_refuses(shared_server):
    with Table(shared_server.address, "small") as small, pytest.raises(longarm_kv.TableFullError):
        for number in range(100_000):
            small.put(str(number), bytes(1000))


def test_nobody_answers():
    with pytest.raises(longarm_kv.NoAnswerError) as error:
        Table("127.0.0.1:9", "default", timeout=0.2)
    assert error.value.executed == "no" and isinstance(error.value, longarm_kv.KvError)


def test_a_closed_table_says_so(shared_server):
    table = Table(shared_server.address, "default")
    keys = iter(table)
    table.close()
    table.close()
    assert table.closed and "closed" in repr(table)
    for use in [lambda: table.get("key"), lambda: next(keys), lambda: table.client]:
        with pytest.raises(longarm_kv.ClosedError):
            use()


def test_a_forked_process_opens_a_table_of_its_own(table):
    table.put("key", b"value")
    child = os.fork()
    if child == 0:
        try:
            table.get("key")
        except longarm_kv.ClosedError as error:
            os._exit(0 if "forked" in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert table.get("key") == b"value"
