"""Client of Longarm's key-value store.

A GET reads the value out of the server's memory by RDMA: the server's processor takes no part in it.

    import longarm_kv

    with longarm_kv.Table("host:7480", "sessions") as table:
        version = table.put("alice", b"tuesday")
        assert table.get("alice") == b"tuesday"

`AsyncTable` is the same for asyncio.
"""

from ._aio import AsyncTable
from ._longarm_kv import (
    ClosedError,
    ConflictError,
    InvalidArgumentError,
    KvError,
    NoAnswerError,
    NoDeviceGetsError,
    NoOrderError,
    NoSuchTableError,
    NotAuthorizedError,
    ReadFailedError,
    RevokedError,
    Table,
    TableFullError,
    Version,
    WrongServerError,
    WrongTypeError,
    __version__,
)

__all__ = [
    "AsyncTable",
    "ClosedError",
    "ConflictError",
    "InvalidArgumentError",
    "KvError",
    "NoAnswerError",
    "NoDeviceGetsError",
    "NoOrderError",
    "NoSuchTableError",
    "NotAuthorizedError",
    "ReadFailedError",
    "RevokedError",
    "Table",
    "TableFullError",
    "Version",
    "WrongServerError",
    "WrongTypeError",
    "__version__",
]
