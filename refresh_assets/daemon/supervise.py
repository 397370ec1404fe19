"""A daemon's life: it waits for the lease, leads while it holds it, and hands over when it is told to stop."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psycopg

from refresh_assets.alerts.heartbeat import host_name
from refresh_assets.daemon.clock import elapsed
from refresh_assets.daemon.fence import Fence
from refresh_assets.daemon.guard import Guard
from refresh_assets.daemon.lease import Lease
from refresh_assets.daemon.outage import Outage
from refresh_assets.daemon.refused import RefusedError
from refresh_assets.daemon.register import Register, connect_register
from refresh_assets.daemon.timing import Timing
from refresh_assets.errors import RefreshError
from refresh_assets.secrets import masked
from refresh_assets.settings import Env, SettingsError
from refresh_assets.stopping import Stopping

_RECONNECT = 1.0
_MEASURE_EVERY = 600.0


class Work(Protocol):
    """What a leader does; every process is ready for it beforehand."""

    def prepare(self) -> None:
        """Get ready. Raises RefusedError where it never will, RefreshError or psycopg.Error where it may later."""

    def lead(self, stopping: Stopping) -> None:
        """Work until the end is wished for. Raises where the work came to an end by itself."""

    def hush(self, seconds: float) -> set[int]:
        """Begin nothing new any more; return, after that time at most, the threads that see to what they began."""

    def drain(self, seconds: float, stopping: Stopping) -> Sequence[str]:
        """Wait for what runs, so long at most or until haste is wished for; return in words what is left running."""

    def close(self) -> None:
        """Free what `prepare` made ready."""


@dataclass
class Daemon:
    """One participant. `drain` is how long running refreshes are waited for at the end, in seconds."""

    work: Work
    stopping: Stopping
    home: Path
    echo: Callable[[str], None]
    drain: float
    timing: Timing = field(default_factory=Timing)
    env: Env = field(default_factory=lambda: os.environ)

    def __post_init__(self) -> None:
        self.fence = Fence()
        self.outage = Outage(self.home, self.timing, self.echo, self.env)

    def run(self) -> None:
        """Take part until the end is wished for.

        Raises SettingsError, RefusedError, and whatever ended the work by itself. A lost lease ends the process.
        """
        self.echo(f"taking part as {host_name()}, pid {os.getpid()}")
        self.fence.install()
        self.outage.start()
        try:
            with Register(self.env, self.timing) as register:
                lease = self._wait_for_lease(register)
                if lease is not None:
                    self._lead(lease, register)
        finally:
            self.outage.stop()
            self.work.close()

    def _wait_for_lease(self, register: Register) -> Lease | None:
        """Return the lease once it is ours, None where the end is wished for; outlast the database's absence."""
        lease: Lease | None = None
        prepared = announced = False
        choice = _Choice(self.timing, self.echo)
        while not self.stopping.requested:
            try:
                if not prepared:
                    # A session that waits for so long would be ended.
                    Lease.open(self.env, self.timing).close()
                    self.outage.answered(standby=False)
                    self.outage.rest()
                    self.work.prepare()
                    prepared = True
                lease = lease or Lease.open(self.env, self.timing)
                if choice.may_try(lease) and lease.try_lock():
                    self.outage.answered(standby=False)
                    self.outage.rest()
                    return lease
                self.outage.answered(standby=True)
            except (SettingsError, RefusedError):
                raise
            except (RefreshError, psycopg.Error) as error:
                self.outage.failed(masked(error, self.env))
                _close(lease)
                lease = None
                announced = False
                self.stopping.wait(_RECONNECT)
                continue
            register.enter("standby", lease.pid)
            if not announced:
                announced = True
                self.echo("standing by")
            self.stopping.wait(self.timing.poll)
        _close(lease)
        return None

    def _lead(self, lease: Lease, register: Register) -> None:
        guard = Guard(lease, self.timing)
        guard.start()
        register.enter("taking over", lease.pid)
        term = self._begin_term(lease, register)
        if term is None:
            guard.stop()
            lease.release()
            return
        register.enter("leader", lease.pid)
        self.echo(f"leading: term {term}")
        try:
            with self._asking():
                self.work.lead(self.stopping)
        finally:
            self._hand_over(lease, register, guard, term)
        left = self.work.drain(self.drain, self.stopping)
        for run in left:
            self.echo(f"left running: {run}")

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Look meanwhile whether the database takes new connections: the lease's own outlives a changed password."""
        done = threading.Event()

        def ask() -> None:
            while not done.wait(self.timing.ask):
                self._ask()

        threading.Thread(target=ask, name="database", daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def _ask(self) -> None:
        try:
            connect_register(self.env).close()
        except (RefreshError, psycopg.Error) as error:
            self.outage.failed(masked(error, self.env))
        else:
            self.outage.answered(standby=False)
            self.outage.rest()

    def _begin_term(self, lease: Lease, register: Register) -> int | None:
        """Wait until an earlier leader must have ended itself, unless it handed over; return the term's number."""
        if not register.was_handed_over() and self.stopping.wait(self.timing.grace):
            return None
        term = register.begin_term(lease.pid)
        self.fence.begin(term)
        return term

    def _hand_over(self, lease: Lease, register: Register, guard: Guard, term: int) -> None:
        """Give the lease up, so that a standby leads within a second."""
        launching = self.work.hush(self.timing.handover)
        register.enter("stopping", None)
        self.fence.end(launching)
        try:
            register.end_term(term)
        except (RefreshError, psycopg.Error) as error:
            self.echo(f"the next leader will wait, for this could not be written down: {masked(error, self.env)}")
        guard.stop()
        lease.release()
        self.echo("the lease is given up")


class _Choice:
    """Keeps a host with a wrong clock from leading while another one may."""

    def __init__(self, timing: Timing, echo: Callable[[str], None]) -> None:
        self._timing = timing
        self._echo = echo
        self._skew = 0.0
        self._measured_at: float | None = None
        self._free_since: float | None = None

    def may_try(self, lease: Lease) -> bool:
        """Tell whether this host may try for the lease now. Raises psycopg.Error."""
        if self._measured_at is None or elapsed() - self._measured_at > _MEASURE_EVERY:
            self._measure(lease)
        if abs(self._skew) <= self._timing.skew:
            return True
        if not lease.is_free():
            self._free_since = None
            return False
        self._free_since = self._free_since or elapsed()
        return elapsed() - self._free_since >= self._timing.second_choice

    def _measure(self, lease: Lease) -> None:
        self._measured_at, self._skew = elapsed(), lease.skew()
        if abs(self._skew) > self._timing.skew:
            self._echo(
                f"this host's clock is {abs(self._skew):.0f} s {'ahead of' if self._skew > 0 else 'behind'} the "
                f"database's: it leads only where nobody else does for {self._timing.second_choice:g} s; set it right"
            )


def _close(lease: Lease | None) -> None:
    if lease is not None:
        lease.close()
