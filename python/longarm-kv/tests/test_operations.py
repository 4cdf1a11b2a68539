import math
import time

import longarm_kv
import pytest
from longarm_kv import Table


def test_versions_protect_a_change(table):
    first = table.insert("key", b"one")
    with pytest.raises(longarm_kv.ConflictError) as conflict:
        table.insert("key", b"x")
    assert conflict.value.version == first and str(first) in str(conflict.value)
    second = table.compare_and_put("key", b"two", first)
    assert table.get_with_version("key") == (b"two", second)
    with pytest.raises(longarm_kv.ConflictError):
        table.compare_and_put("key", b"x", first)
    with pytest.raises(longarm_kv.ConflictError):
        table.compare_and_delete("key", first)
    assert longarm_kv.Version(str(second)) == second and len({first, second, longarm_kv.Version(str(first))}) == 2
    assert table.compare_and_delete("key", second) and not table.delete("key")
    with pytest.raises(longarm_kv.ConflictError) as absent:
        table.update("key", b"x")
    assert absent.value.version is None
    with pytest.raises(longarm_kv.InvalidArgumentError):
        longarm_kv.Version("no version")


def test_a_table_is_a_mapping(table):
    table["alice"] = b"tuesday"
    table[b"bob"] = "friday"
    assert table["alice"] == b"tuesday" and table["bob"] == b"friday"
    assert "alice" in table and "carol" not in table
    assert sorted(table) == [b"alice", b"bob"]
    del table["alice"]
    for lookup in [lambda: table["alice"], lambda: table.__delitem__("alice")]:
        with pytest.raises(KeyError):
            lookup()
    assert table.get("alice") is None and table.get("alice", 7) == 7


def test_counters(table):
    assert (table.add("count"), table.add("count", 41), table.get("count")) == (1, 42, b"42")
    table.put("word", "forty")
    with pytest.raises(longarm_kv.WrongTypeError):
        table.add("word")


def test_keys_expire(table):
    table.put("soon", b"1", ttl=0.05)
    table.put("late", b"2", ttl=1000)
    table.put("kept", b"3")
    assert 900 < table.time_to_live("late") <= 1000 and table.time_to_live("kept") == math.inf
    deadline = time.monotonic() + 60
    while table.get("soon") is not None:
        assert time.monotonic() < deadline
    assert table.time_to_live("soon") is None and not table.expire("soon", 1)
    assert table.persist("late") and table.time_to_live("late") == math.inf
    assert table.expire("late", 0) and table.get("late") is None
    for seconds in [-1, math.nan, math.inf]:
        with pytest.raises(longarm_kv.InvalidArgumentError):
            table.put("late", b"", ttl=seconds)


def test_many_keys_at_a_time(table):
    pairs = {f"many {number}": f"value {number}" for number in range(500)}
    table.multi_put(pairs)
    table.multi_put([(b"one", b"1"), ("two", "2")])
    values = table.multi_get([*pairs, "no such key", "two"])
    assert values == [*(value.encode() for value in pairs.values()), None, b"2"]
    assert sorted(table.scan("many ", count=7)) == sorted(key.encode() for key in pairs)
    assert len(list(table)) == 502
    with pytest.raises(TypeError):
        table.multi_get([1])
    with pytest.raises(TypeError):
        table.multi_put(7)


def test_ranges_have_an_order(shared_server, table):
    with Table(shared_server.address, "ordered") as ordered:
        ordered.multi_put((f"{number:03}", str(number)) for number in range(100))
        pair = lambda number: (f"{number:03}".encode(), str(number).encode())
        assert ordered.range("010", "020") == [pair(number) for number in range(10, 20)]
        assert ordered.range(start="098") == [pair(98), pair(99)]
        assert ordered.range(limit=3) == [pair(0), pair(1), pair(2)]
    with pytest.raises(longarm_kv.NoOrderError):
        table.range()


def test_gets_are_reads_unless_asked_otherwise(shared_server, table):
    table.put("key", b"value")
    with Table(shared_server.address, "default", get="rpc") as by_rpc:
        for _ in range(10):
            assert table.get("key") == by_rpc.get("key") == b"value"
        assert by_rpc.stats()["one_sided_gets"] == 0 and by_rpc.stats()["rpc_gets"] == 10
    assert table.stats()["one_sided_gets"] >= 10 and table.stats()["rpc_gets"] == 0
