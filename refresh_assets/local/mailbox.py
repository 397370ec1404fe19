"""The mail server of `up`: a real one for this machine that keeps each mail as a file, and passes none on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any

from refresh_assets.errors import RefreshError
from refresh_assets.ports import LOCALHOST, first_free

FIRST_PORT = 2525
PORTS = 200
KEPT = 500
MAX_BYTES = 33_554_432
_RECIPIENT = "you@localhost"
_LOGIN = ("SMTP_USER", "SMTP_PASSWORD", "SMTP_PASSWORD_FILE")


@dataclass(frozen=True)
class Mailbox:
    """Where mail is caught: the folder of the files, the port of the server."""

    folder: Path
    port: int

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the settings that lead mail here; addresses that are set stay."""
        return {
            "SMTP_HOST": LOCALHOST,
            "SMTP_PORT": str(self.port),
            "SMTP_SECURITY": "none",
            # A blank setting counts as none: this server asks for no login.
            **dict.fromkeys(_LOGIN, ""),
            "ALERT_FROM": given.get("ALERT_FROM", "").strip() or "refresh-assets@localhost",
            "ALERT_TO": given.get("ALERT_TO", "").strip() or _RECIPIENT,
        }


def mailbox(home: Path, given: Mapping[str, str]) -> Mailbox | None:
    """Return the mailbox of this home, not started yet, or None where the team has a mail server of its own.

    Raises RefreshError where no port is free.
    """
    if given.get("SMTP_HOST", "").strip():
        return None
    port = first_free(range(FIRST_PORT, FIRST_PORT + PORTS))
    if port is None:
        raise RefreshError(f"no port from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} is free for the local mail server")
    return Mailbox(home / "mail", port)


def serve(folder: Path, port: int) -> None:
    """Catch mail until the process is ended."""
    asyncio.run(_serve(folder, port))


async def _serve(folder: Path, port: int) -> None:
    from aiosmtpd.smtp import SMTP

    keeper = Keeper(folder)
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(keeper, data_size_limit=MAX_BYTES, hostname="localhost", ident="refresh-assets"), LOCALHOST, port
    )
    sys.stdout.write(f"catching mail in {folder}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


class Keeper:
    """Writes each mail to a file of its own and removes the oldest beyond a number."""

    def __init__(self, folder: Path, kept: int = KEPT) -> None:
        self._folder = folder
        self._kept = kept
        self._numbers = count(1)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - the server's word
        name = f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S.%f}Z-{os.getpid()}-{next(self._numbers)}.eml"
        try:
            self._write(name, envelope.content)
            self._remove_oldest()
        except OSError as error:
            return f"451 the mail cannot be kept: {error.strerror}"
        return f"250 kept as {name}"

    def _write(self, name: str, content: bytes) -> None:
        # Complete when it is there under its name.
        temporary = self._folder / f".{name}"
        temporary.write_bytes(content)
        temporary.replace(self._folder / name)

    def _remove_oldest(self) -> None:
        for path in sorted(self._folder.glob("*.eml"))[: -self._kept]:
            path.unlink(missing_ok=True)
