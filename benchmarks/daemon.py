"""Two daemons on one database through eight slots and every kind of fault, beside the control: two stock daemons.

Also the cut of a leader's link by dropped packets, between two network namespaces, where the machine allows it (Linux,
root, the command `ip`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from server import folder

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from refresh_assets.postgres import embedded
from refresh_assets_tests.postgres_fixtures import new_database
from refresh_assets_tests.relay import Relay, Runner, relay_on

NAMESPACE, OUTER, INNER = "refresh-bench", "rb-outer", "rb-inner"
OUTER_IP, INNER_IP = "10.213.77.1", "10.213.77.2"
NOWHERE = "02:00:00:00:00:99"
SETTINGS = {"fsync": "off"}


class Manager:
    """Keeps two daemons running, as a service manager does: started again a second after they end."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.runners = {host: relay.start(host) for host in ("etl-1", "etl-2")}
        self.done = threading.Event()
        threading.Thread(target=self._work, daemon=True).start()

    def leader(self) -> Runner:
        """Wait for a leader that has a standby, and return it."""
        while True:
            pid = self.relay.leader()
            found = [runner for runner in self.runners.values() if runner.pid == pid]
            others = [runner for runner in self.runners.values() if runner.pid != pid and runner.process.poll() is None]
            if found and any("standing by" in other.text for other in others):
                return found[0]
            time.sleep(0.1)

    def _work(self) -> None:
        while not self.done.wait(1):
            for host, runner in list(self.runners.items()):
                if runner.process.poll() is not None:
                    self.runners[host] = self.relay.start(host)


def kill(manager: Manager, _server: embedded.EmbeddedServer) -> None:
    manager.leader().send(signal.SIGKILL)


def terminate(manager: Manager, _server: embedded.EmbeddedServer) -> None:
    manager.relay.rows("SELECT pg_terminate_backend(lease_pid) FROM refresh_daemon.participant WHERE state = 'leader'")


def freeze(manager: Manager, _server: embedded.EmbeddedServer) -> None:
    leader = manager.leader()
    leader.send(signal.SIGSTOP)

    def wake() -> None:
        time.sleep(25)
        leader.send(signal.SIGCONT)

    threading.Thread(target=wake).start()


def restart(manager: Manager, server: embedded.EmbeddedServer) -> None:
    server.stop()
    embedded.start(server.folder.parent, settings=SETTINGS)
    manager.relay.reconnect()


# What happens to the leader, and how many seconds before or after the slot's instant.
FAULTS: list[tuple[str, float, Callable[[Manager, embedded.EmbeddedServer], None]]] = [
    ("SIGKILL", -1.0, kill),
    ("pg_terminate_backend", -0.5, terminate),
    ("SIGSTOP, SIGCONT after 25 s", 0.05, freeze),
    ("Postgres restart", -1.0, restart),
    ("SIGKILL in the tick", 0.1, kill),
    ("SIGSTOP, SIGCONT after 25 s", -1.0, freeze),
    ("pg_terminate_backend in the tick", 0.1, terminate),
    ("none", 0.0, lambda _manager, _server: None),
]


def slot_name(instant: float) -> str:
    return datetime.fromtimestamp(instant, timezone.utc).isoformat()


def stock(relay: Relay, host: str) -> subprocess.Popen[bytes]:
    """Start a stock daemon."""
    from refresh_assets.instance import prepare_home

    home = relay.folder / host
    with (relay.folder / f"{host}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "dagster._daemon", "run", "-w", str(relay.folder / "workspace.yaml")],
            env={**relay.env, "REFRESH_HOME": str(home), "DAGSTER_HOME": str(prepare_home(home))},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def eight_slots(count: int) -> None:
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(folder())
        servers, relays = [], []
        for name in ("product", "control"):
            server = embedded.start(home / name, settings=SETTINGS)
            stack.callback(server.stop)
            place = home / f"{name}-homes"
            place.mkdir()
            relays.append(stack.enter_context(relay_on(stack.enter_context(new_database(server)), place)))
            servers.append(server)
        product, control = relays
        manager = Manager(product)
        stack.callback(manager.done.set)
        for process in (stock(control, "etl-1"), stock(control, "etl-2")):
            stack.callback(os.killpg, process.pid, signal.SIGKILL)
        manager.leader()
        time.sleep(5)
        first = (time.time() // 60 + 1) * 60
        slots = [first + 60 * number for number in range(count)]
        for slot, (name, offset, fault) in zip(slots, FAULTS * (count // len(FAULTS) + 1), strict=False):
            time.sleep(max(0.0, slot + offset - time.time()))
            fault(manager, servers[0])
            print(f"{slot_name(slot)}: {name}", flush=True)
        time.sleep(max(0.0, slots[-1] + 45 - time.time()))
        report(slots, product, control)
        manager.done.set()


def report(slots: list[float], product: Relay, control: Relay) -> None:
    ours, stocks = product.slots(), control.slots()
    print("\n| slot | fault | runs, refresh-assets daemon | runs, two stock daemons |\n| --- | --- | --- | --- |")
    for slot, (name, _offset, _fault) in zip(slots, FAULTS * (len(slots) // len(FAULTS) + 1), strict=False):
        print(f"| {slot_name(slot)} | {name} | {ours.get(slot_name(slot), 0)} | {stocks.get(slot_name(slot), 0)} |")
    for name, relay in (("refresh-assets daemon", product), ("two stock daemons", control)):
        runs = [relay.slots().get(slot_name(slot), 0) for slot in slots]
        states = relay.rows("SELECT status, count(*) FROM dagster.runs GROUP BY 1 ORDER BY 1")
        print(f"{name}: {len(slots)} slots, {sum(runs)} runs ({dict(states)}), bound {len(slots)}")


# The cut link


def ip(*words: str, inside: bool = False) -> None:
    subprocess.run([*(["ip", "netns", "exec", NAMESPACE] if inside else []), "ip", *words], check=True)


@contextlib.contextmanager
def namespace() -> Iterator[None]:
    """Make a namespace that one link leads to."""
    ip("netns", "add", NAMESPACE)
    try:
        ip("link", "add", OUTER, "type", "veth", "peer", "name", INNER)
        ip("link", "set", INNER, "netns", NAMESPACE)
        ip("addr", "add", f"{OUTER_IP}/30", "dev", OUTER)
        ip("link", "set", OUTER, "up")
        for words in (
            ("addr", "add", f"{INNER_IP}/30", "dev", INNER),
            ("link", "set", INNER, "up"),
            ("link", "set", "lo", "up"),
        ):
            ip(*words, inside=True)
        yield
    finally:
        ip("netns", "del", NAMESPACE)


def drop_packets() -> None:
    """Send all packets of the link to an address that nobody has; neither side is told."""
    ip("neigh", "replace", INNER_IP, "lladdr", NOWHERE, "dev", OUTER, "nud", "permanent")
    ip("neigh", "replace", OUTER_IP, "lladdr", NOWHERE, "dev", INNER, "nud", "permanent", inside=True)


def forwarder(port: int) -> socket.socket:
    """Let the server, which listens on 127.0.0.1 only, be reached over the link."""
    listener = socket.create_server((OUTER_IP, 0))

    def pass_on(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _address = listener.accept()
                there = socket.create_connection(("127.0.0.1", port))
                for pair in ((here, there), (there, here)):
                    threading.Thread(target=pass_on, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener


def cut_link() -> None:
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(folder())
        server = embedded.start(home / "server", settings=SETTINGS)
        stack.callback(server.stop)
        stack.enter_context(namespace())
        place = home / "homes"
        place.mkdir()
        relay = stack.enter_context(relay_on(stack.enter_context(new_database(server)), place))
        listener = stack.enter_context(contextlib.closing(forwarder(server.port)))
        through = {"PGHOST": OUTER_IP, "PGPORT": str(listener.getsockname()[1])}
        leader = relay.start("etl-1", within=("ip", "netns", "exec", NAMESPACE), env=through)
        relay.wait(relay.leader)
        standby = relay.start("etl-2")
        relay.stands_by(standby)
        drop_packets()
        began = time.monotonic()
        relay.wait(lambda: leader.process.poll() is not None, 30)
        print(f"packets dropped: the leader ended itself after {time.monotonic() - began:.1f} s, bound 6 s")
        relay.leads(standby)
        print(f"packets dropped: the standby led after {time.monotonic() - began:.1f} s, bound 15 s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=8, help="minutes that it takes")
    parser.add_argument("--only-link", action="store_true", help="cut the link, no slots")
    options = parser.parse_args()
    if not options.only_link:
        eight_slots(options.slots)
    if sys.platform == "linux" and os.geteuid() == 0 and shutil.which("ip"):
        cut_link()
    else:
        print("the link is not cut: network namespaces need Linux, root and the command ip")


if __name__ == "__main__":
    main()
