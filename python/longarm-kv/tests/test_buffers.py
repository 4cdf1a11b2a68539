import array

import longarm_kv
import numpy
import pytest


def test_all_kinds_of_bytes_are_values(table):
    for value in [b"bytes", bytearray(b"array"), memoryview(b"view"), array.array("d", [1.5, 2.5]), b"", "ü"]:
        table.put("key", value)
        wanted = value.encode() if isinstance(value, str) else bytes(value)
        assert table.get("key") == wanted
    table.put(bytearray(b"key"), b"x")
    assert table.get(memoryview(b"key")) == b"x"


@pytest.mark.parametrize("kind", ["u1", "f4", "c16", "f2", "i4,f8"])
def test_arrays_come_back(table, kind):
    values = numpy.arange(1000).astype(kind).reshape(10, 100)
    table.put("array", values)
    back = numpy.zeros_like(values)
    assert table.get_into("array", back) == values.nbytes
    assert numpy.array_equal(back, values)
    assert numpy.array_equal(numpy.frombuffer(table.get("array"), dtype=kind).reshape(10, 100), values)


def test_long_arrays_go_and_come(table):
    values = numpy.arange(3_000_000, dtype="f8")
    table.put("long", values)
    back = numpy.empty_like(values)
    assert table.get_into("long", back) == values.nbytes and numpy.array_equal(back, values)
    assert table.get("long") == values.tobytes()


def test_a_buffer_may_be_longer_and_not_shorter(table):
    table.put("key", b"12345")
    buffer = bytearray(b"........")
    assert table.get_into("key", buffer) == 5 and buffer == b"12345..."
    short = bytearray(b"....")
    with pytest.raises(longarm_kv.InvalidArgumentError, match="5 bytes, and the buffer only 4"):
        table.get_into("key", short)
    assert short == b"...."
    assert table.get_into("no such key", buffer) is None and buffer == b"12345..."
    # The buffer can be resized again.
    buffer.clear()


def test_wrong_objects_are_refused(table):
    for wrong in [1, None, ["key"]]:
        with pytest.raises(TypeError, match="is str, bytes or a buffer"):
            table.get(wrong)
        with pytest.raises(TypeError):
            table.put("key", wrong)
    with pytest.raises(BufferError, match="read-only"):
        table.get_into("key", b"constant")
    with pytest.raises(BufferError, match="contiguous"):
        table.put("key", numpy.zeros((10, 10))[:, ::2])
    with pytest.raises(longarm_kv.InvalidArgumentError):
        table.put(b"k" * ((64 << 10) + 1), b"")
