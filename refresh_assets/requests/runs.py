"""The runs of requests: what a plan becomes, and what keeps its request alive. Upper floor: imports dagster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import timedelta

import dagster as dg

from refresh_assets.alerts.owner import OWNER_TAG, SETTLED_TAG
from refresh_assets.alerts.pulse import Pulse
from refresh_assets.requests.claim import Claim, bind
from refresh_assets.requests.fence import TOKEN_TAG, RequestLostError
from refresh_assets.requests.heartbeat import RequestBeat
from refresh_assets.requests.kinds import Plan
from refresh_assets.requests.storage import connect_plainly

PRIORITY_TAG = "dagster/priority"


def run_request(claim: Claim, plan: Plan) -> dg.RunRequest:
    """Return the request for a run that writes the parts which are not done yet; its key is the claim's token."""
    left = plan.left(claim.done)
    names = list(dict.fromkeys([*plan.assets, *(asset for part in left for asset in plan.parts[part])]))
    tags = {**plan.tags(left), OWNER_TAG: claim.instance, TOKEN_TAG: claim.token}
    if claim.priority is not None:
        tags[PRIORITY_TAG] = str(claim.priority)
    return dg.RunRequest(
        run_key=claim.token,
        job_name=plan.job,
        asset_selection=[dg.AssetKey.from_user_string(name) for name in names],
        run_config=plan.config_of(names),
        tags=tags,
    )


@contextlib.contextmanager
def kept_alive(
    instance: dg.DagsterInstance, run: dg.DagsterRun, every: timedelta, warn: Callable[[str], object]
) -> Iterator[None]:
    """Renew the heartbeat of a run's request while the block runs; other runs need none.

    Raises RequestLostError where the request has another run, or is no longer there: two daemons may create a run
    each for one run key.
    """
    token = run.tags.get(TOKEN_TAG)
    if token is None:
        yield
        return
    with connect_plainly(os.environ) as conn:
        mine = bind(conn, token, run.run_id, started=True)
    if not mine:
        # Nobody waits for this run, so nobody is told of its failure.
        instance.add_run_tags(run.run_id, {SETTLED_TAG: "another run has the request"})
        raise RequestLostError(
            f"the request {run.tags.get(OWNER_TAG)!r} was given to another run, moved, removed or done; this one does "
            "nothing. A run of a request cannot be executed again: ask again with `refresh-assets request add …`"
        )
    with Pulse(RequestBeat(token), every, warn):
        yield
