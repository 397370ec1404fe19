"""Free ports of this machine."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LOCALHOST = "127.0.0.1"


def is_free(port: int, host: str = LOCALHOST) -> bool:
    """Tell whether a server could listen there now, and none does."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as caller:
        caller.settimeout(1)
        # Some systems let a second server bind beside one that listens on all addresses.
        if caller.connect_ex((host, port)) == 0:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def first_free(ports: Iterable[int]) -> int | None:
    """Return the first of these ports that is free, or None."""
    return next((port for port in ports if is_free(port)), None)
