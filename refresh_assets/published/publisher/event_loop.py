"""An event loop that gives back control at once when its work is over or out of time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Loop(asyncio.SelectorEventLoop):
    """Looks names up in a daemon thread.

    The pool that asyncio uses is waited for when the loop or the interpreter ends, and a name server that does not
    answer would hold both for longer than any deadline.
    """

    async def getaddrinfo(self, host: Any, port: Any, **hints: Any) -> Any:
        found: asyncio.Future[Any] = self.create_future()

        def settle(result: Any, error: OSError | UnicodeError | None) -> None:
            if not found.done():
                found.set_result(result) if error is None else found.set_exception(error)

        def look_up() -> None:
            result, error = None, None
            try:
                result = socket.getaddrinfo(host, port, **hints)
            except (OSError, UnicodeError) as problem:
                error = problem
            # The loop may have ended without waiting for the answer.
            with contextlib.suppress(RuntimeError):
                self.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=look_up, name="look up a host", daemon=True).start()
        return await found


def run(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Run `work` in a loop of its own. Raises asyncio.TimeoutError after so many seconds, and what `work` raises."""
    loop = _Loop()
    try:
        return loop.run_until_complete(_within(work, seconds))
    finally:
        _end(loop)


async def _within(work: Coroutine[Any, Any, T], seconds: float) -> T:
    return await asyncio.wait_for(work, seconds)


def _end(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_until_complete(_cancel_others())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
