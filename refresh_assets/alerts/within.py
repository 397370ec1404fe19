"""Bounds in time for calls that know none of their own: name look-ups, servers that send a byte now and then."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
_AGAIN = 0.5


def within(seconds: float, call: Callable[[], T], late: Callable[[T], object] = lambda _result: None) -> T:
    """Return what `call` returns, or raise what it raises, or TimeoutError when it takes longer.

    It then goes on in a daemon thread, and `late` gets its result.
    """
    future: Future[T] = Future()

    def work() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            problem = error
            _settle(lambda: future.set_exception(problem))
            return
        if not _settle(lambda: future.set_result(result)):
            late(result)

    threading.Thread(target=work, name="within a time-out", daemon=True).start()
    done = threading.Event()
    future.add_done_callback(lambda _future: done.set())
    # Cancelling fails when the result came at the very end, and then it counts.
    if not done.wait(seconds) and future.cancel():
        raise TimeoutError(f"not done within {seconds:g} seconds")
    return future.result()


def _settle(settle: Callable[[], None]) -> bool:
    """Tell whether somebody still waits for the result."""
    with contextlib.suppress(Exception):
        settle()
        return True
    return False


@contextlib.contextmanager
def cut_after(seconds: float, sock_of: Callable[[], socket.socket | None]) -> Iterator[threading.Event]:
    """Shut a connection down when the block takes longer; gives the event that says so.

    A socket's own time-out starts anew with every byte. The socket is asked for at that moment, for encryption
    replaces it.
    """
    cut, done = threading.Event(), threading.Event()

    def watch() -> None:
        pause = seconds
        while not done.wait(pause):
            cut.set()
            _shut_down(sock_of())
            pause = _AGAIN

    threading.Thread(target=watch, name="time-out", daemon=True).start()
    try:
        yield cut
    finally:
        done.set()


def _shut_down(sock: socket.socket | None) -> None:
    if sock is not None:
        with contextlib.suppress(OSError):
            # Not the method of a TLS socket, which forgets its encryption while another thread reads.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
