-- What several statements say of a row `task` of scheduled_tasks. Others write its numbers and instants, too: one that
-- is out of bounds must not keep all requests from being claimed or ended.

-- name: next_version
least(task.version, 9223372036854770000) + 1

-- name: failures
least(greatest(task.consecutive_failures, 0), 1000000)

-- name: silence
-- In seconds. By a clock that was ahead and has been put right, a heartbeat can lie in the future.
CASE WHEN isfinite(task.last_heartbeat)
    THEN
        abs(extract(epoch FROM coalesce(%(now)s::timestamptz, statement_timestamp()) - task.last_heartbeat))
        ::double precision
    ELSE 'infinity'::double precision
END
