"""States of schedules that Dagster wrote half: a leader makes them whole."""

from __future__ import annotations

import pytest
from dagster._core.errors import DagsterInvariantViolationError
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus

from refresh_assets.daemon.instigators import complete_states
from refresh_assets_tests.watchtower import Watchtower, schedule_state

pytestmark = pytest.mark.slow

SCHEDULE = "weekly_refresh_schedule"


def half_written(tower: Watchtower, state: InstigatorState) -> None:
    """Leave what a process leaves that dies between the two statements by which Dagster adds a state."""
    tower.instance.add_instigator_state(state)
    tower.shop.admin.execute("DELETE FROM dagster.instigators WHERE selector_id = %s", [state.selector_id])


@pytest.mark.parametrize("status", [InstigatorStatus.DECLARED_IN_CODE, InstigatorStatus.STOPPED])
def test_a_state_that_was_half_written_is_made_whole_as_it_was(tower: Watchtower, status: InstigatorStatus) -> None:
    state = schedule_state(status, SCHEDULE)
    half_written(tower, state)
    assert tower.instance.get_instigator_state(state.instigator_origin_id, state.selector_id) is None
    with pytest.raises(DagsterInvariantViolationError, match="already present"):
        tower.instance.add_instigator_state(state)
    assert complete_states(tower.instance) == [SCHEDULE]
    assert tower.instance.get_instigator_state(state.instigator_origin_id, state.selector_id) == state
    assert tower.instance.all_instigator_state() == [state]
    assert complete_states(tower.instance) == []


def test_a_whole_state_is_left_as_it_is(tower: Watchtower) -> None:
    tower.instance.add_instigator_state(schedule_state(InstigatorStatus.DECLARED_IN_CODE, SCHEDULE))
    stopped = schedule_state(InstigatorStatus.STOPPED, SCHEDULE)
    tower.instance.update_instigator_state(stopped)
    assert complete_states(tower.instance) == []
    assert tower.instance.all_instigator_state() == [stopped]
