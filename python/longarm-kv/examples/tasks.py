"""Many tasks of asyncio share one table: `python tasks.py host:7480 [table]`."""

import asyncio
import sys
import time

import longarm_kv

TASKS = 100
VISITS = 10


async def visit(table: longarm_kv.AsyncTable, number: int) -> None:
    """Reads a session again and again, and counts each visit."""
    await table.put(f"session {number}", b"a cart")
    for _ in range(VISITS):
        cart, _ = await asyncio.gather(table.get(f"session {number}"), table.add("visits of the example"))
        assert cart == b"a cart"


async def main(address: str, name: str = "default") -> None:
    async with longarm_kv.AsyncTable(address, name) as table:
        await table.delete("visits of the example")
        began = time.monotonic()
        await asyncio.gather(*(visit(table, number) for number in range(TASKS)))
        visits = await table.get("visits of the example", b"0")
        print(f"{visits.decode()} visits by {TASKS} tasks in {time.monotonic() - began:.3f} s")
        print(table.stats())


asyncio.run(main(*sys.argv[1:]))
