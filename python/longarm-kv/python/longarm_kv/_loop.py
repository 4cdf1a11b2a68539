"""The event loops on which operations wait."""

import asyncio
import weakref

from ._longarm_kv import LoopBridge

_bridges: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBridge]" = weakref.WeakKeyDictionary()


def running() -> tuple[asyncio.AbstractEventLoop, LoopBridge]:
    """The event loop that runs, and the descriptor by which threads of Longarm's wake it."""
    event_loop = asyncio.get_running_loop()
    bridge = _bridges.get(event_loop)
    if bridge is None:
        bridge = LoopBridge()
        event_loop.add_reader(bridge.fileno(), bridge.run)
        _bridges[event_loop] = bridge
    return event_loop, bridge
