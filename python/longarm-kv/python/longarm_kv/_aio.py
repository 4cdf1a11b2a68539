"""The client for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, overload

from ._longarm_kv import NoAnswerError, TaskTable, Version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Buffer, Generator, Iterable, Mapping
    from types import TracebackType
    from typing import Literal, Self, TypeVar

    from ._longarm_kv import Stats

    _T = TypeVar("_T")
    _Key = str | Buffer
    _Value = str | Buffer


_FAREWELL_S = 0.1


class AsyncTable:
    """A table on a server, for asyncio. Any number of tasks share it, and their operations are under way at the same time.

        async with longarm_kv.AsyncTable("host:7480", "sessions") as table:
            await table.put("alice", b"tuesday")
            value = await table.get("alice")

    `table = await AsyncTable(...)` opens it, too. A task that is cancelled gives its operation up at once: a change may have been
    executed or not then, and the table remains usable. So Ctrl-C ends a wait at once. No operation blocks the event loop.
    """

    def __init__(
        self,
        address: str,
        table: str,
        *,
        secret: str | Buffer | None = None,
        timeout: float = 5.0,
        get: Literal["one-sided", "rpc", "device", "choose"] = "one-sided",
        put: Literal["rpc", "one-sided"] = "rpc",
        locations: int = 65536,
        outstanding: int = 16,
    ) -> None:
        self._table = TaskTable(
            address,
            table,
            secret=secret,
            timeout=timeout,
            get=get,
            put=put,
            locations=locations,
            outstanding=outstanding,
        )
        self._words = f"{table!r} at {address}"

    def __repr__(self) -> str:
        return f"<longarm_kv.AsyncTable {self._words}{', closed' if self.closed else ''}>"

    async def _open(self) -> Self:
        await self._table.open()
        return self

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        return await self._open()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def client(self) -> int | None:
        """The client's number at the server."""
        return self._table.client

    @property
    def closed(self) -> bool:
        """True before it is opened, and after `close`."""
        return self._table.closed

    async def close(self) -> None:
        """Gives the right to the table back, and ends the connections. A server that does not answer at once forgets the right
        later."""
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await self._table.close()
        except (TimeoutError, NoAnswerError):
            pass

    @overload
    async def get(self, key: _Key) -> bytes | None: ...
    @overload
    async def get(self, key: _Key, default: _T) -> bytes | _T: ...
    async def get(self, key: _Key, default: Any = None) -> Any:
        """The value of a key; `default` if it is absent."""
        return await self._table.get(key, default)

    async def get_with_version(self, key: _Key) -> tuple[bytes, Version] | None:
        """The value of a key and its version; None if it is absent."""
        return await self._table.find(key)

    async def get_into(self, key: _Key, buffer: Buffer) -> int | None:
        """Copies the value of a key to the front of a writable buffer, when it is there. Returns its number of bytes, or None if
        the key is absent. A buffer that is too short remains as it is."""
        return await self._table.get_into(key, buffer)

    async def multi_get(self, keys: Iterable[_Key]) -> list[bytes | None]:
        """The values of several keys, in their order; None for absent ones. Several are looked up at a time."""
        return await self._table.multi_get(keys)

    async def put(self, key: _Key, value: _Value, *, ttl: float | None = None) -> Version:
        """Gives a key a value. With `ttl` it expires after so many seconds."""
        return await self._table.put(key, value, ttl)

    async def insert(self, key: _Key, value: _Value, *, ttl: float | None = None) -> Version:
        """Gives a value to a key that is absent."""
        return await self._table.insert(key, value, ttl)

    async def update(self, key: _Key, value: _Value, *, ttl: float | None = None) -> Version:
        """Gives a value to a key that is present."""
        return await self._table.update(key, value, ttl)

    async def compare_and_put(self, key: _Key, value: _Value, version: Version, *, ttl: float | None = None) -> Version:
        """Gives a key a value, if it still has this version."""
        return await self._table.compare_and_put(key, value, version, ttl)

    async def multi_put(self, pairs: Mapping[Any, _Value] | Iterable[tuple[_Key, _Value]]) -> None:
        """Gives keys values, several at a time: a mapping, or pairs."""
        await self._table.multi_put(pairs.items() if hasattr(pairs, "items") else pairs)

    async def delete(self, key: _Key) -> bool:
        """Deletes a key. Returns False if it was absent."""
        return await self._table.delete(key)

    async def compare_and_delete(self, key: _Key, version: Version) -> bool:
        """Deletes a key that still has this version. Returns False if it was absent."""
        return await self._table.compare_and_delete(key, version)

    async def add(self, key: _Key, amount: int = 1) -> int:
        """Adds to a counter, and returns its sum. It is kept as decimal digits; an absent key counts from zero."""
        return await self._table.add(key, amount)

    async def expire(self, key: _Key, seconds: float) -> bool:
        """Lets a key expire after so many seconds. Returns False if it is absent."""
        return await self._table.expire(key, seconds)

    async def persist(self, key: _Key) -> bool:
        """Lets a key stay. Returns False if it is absent."""
        return await self._table.persist(key)

    async def time_to_live(self, key: _Key) -> float | None:
        """The seconds that a key has left; infinity if it stays, None if it is absent."""
        return await self._table.time_to_live(key)

    async def scan(self, prefix: _Key = b"", *, count: int = 100) -> AsyncIterator[bytes]:
        """The keys with a prefix, in the order of a hash; `count` of them are fetched at a time."""
        cursor = 0
        while True:
            keys, cursor = await self._table.scan(cursor, count, prefix)
            for key in keys:
                yield key
            if cursor == 0:
                return

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.scan()

    async def range(
        self, start: _Key | None = None, end: _Key | None = None, *, limit: int = 1000
    ) -> list[tuple[bytes, bytes]]:
        """At most `limit` pairs from the key `start` to before `end`, in the order of keys. Only for tables of the layout
        "tree"."""
        return await self._table.range(start, end, limit)

    def stats(self) -> Stats:
        """Figures of this client."""
        return self._table.stats()
