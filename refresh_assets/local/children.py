"""The long-running children of `up`: started, watched, started again when they die, stopped."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from refresh_assets.errors import RefreshError
from refresh_assets.local.processes import end, session_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psutil

    from refresh_assets.local.logs import BoundedLog

RESTARTS = 5
# A child that has run for so long has a fresh account of restarts.
SOUND_AFTER = 600.0
FIRST_WAIT = 1.0


class ChildDiedError(RefreshError):
    """A child ended again and again; the text holds the end of its log."""


def spawn(
    command: list[str], env: Mapping[str, str], *, stdout: int | None = None, stderr: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that Ctrl-C in the terminal reaches only `up`.

    Its standard input is a pipe that nobody writes to.
    """
    return subprocess.Popen(  # noqa: S603 - the interpreter and modules of our own
        command,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=dict(env),
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


def child_command(kind: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "refresh_assets.local.child", kind, *arguments]


@dataclass
class Child:
    """One child. `name` is for people and for its log file, `command` its argument list without any secret."""

    name: str
    command: list[str]
    env: Mapping[str, str] = field(repr=False)
    log: BoundedLog
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _started: float = 0.0
    _deaths: int = 0
    _again_at: float = 0.0

    def start(self) -> None:
        process = spawn(self.command, self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if process.stdout is not None:
            self.log.copy(process.stdout)
        self._process, self._started = process, time.monotonic()

    @property
    def exit_code(self) -> int | None:
        """The exit code of a child that died, None while it runs."""
        return self._process.poll() if self._process is not None else None

    def check(self) -> str | None:
        """Start it again if it died, after a growing wait. Returns what a person should be told, if anything.

        Raises ChildDiedError when it has died too often.
        """
        if self._process is None:
            if time.monotonic() < self._again_at:
                return None
            self.start()
            return f"started the {self.name} again"
        code = self._process.poll()
        if code is None:
            return None
        return self._died(self._process, code)

    def _died(self, process: subprocess.Popen[bytes], code: int) -> str:
        end(lambda: session_of(process.pid), patience=2)
        self._deaths = 1 if time.monotonic() - self._started > SOUND_AFTER else self._deaths + 1
        told = f"the {self.name} ended by itself ({_reason(code)}); the end of {self.log.path}:\n{self.log.tail()}"
        if self._deaths > RESTARTS:
            raise ChildDiedError(f"{told}\nit was started {RESTARTS} times again; giving up")
        wait = FIRST_WAIT * 2 ** (self._deaths - 1)
        self._process, self._again_at = None, time.monotonic() + wait
        close(process)
        return f"{told}\nit is started again in {wait:g} s"

    def close(self) -> None:
        """Collect the ended process and close its pipe."""
        if self._process is not None:
            close(self._process)
            self._process = None


def family(children: list[Child]) -> list[psutil.Process]:
    """Return the living processes of the children's sessions: for systems that hide other processes' environment."""
    leaders = [child._process.pid for child in children if child._process is not None]  # noqa: SLF001
    return [process for leader in leaders for process in session_of(leader)]


def close(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe to a process, and collect it within some seconds."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)


def _reason(code: int) -> str:
    if code >= 0 or os.name == "nt":
        return f"exit code {code}"
    return f"signal {-code}"
