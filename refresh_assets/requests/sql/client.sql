-- name: schedule_if_not_exists
INSERT INTO {schema}.scheduled_tasks (task_name, task_instance, task_data, execution_time, picked, version, priority)
VALUES (
    %(task)s, %(instance)s, %(data)s, coalesce(%(at)s::timestamptz, statement_timestamp()), false, 1, %(priority)s
)
ON CONFLICT (task_name, task_instance) DO NOTHING
RETURNING true

-- name: schedule_or_reschedule
INSERT INTO {schema}.scheduled_tasks AS task (
    task_name, task_instance, task_data, execution_time, picked, version, priority
)
VALUES (
    %(task)s, %(instance)s, %(data)s, coalesce(%(at)s::timestamptz, statement_timestamp()), false, 1, %(priority)s
)
ON CONFLICT (task_name, task_instance) DO UPDATE
SET
    task_data = excluded.task_data,
    execution_time = excluded.execution_time,
    priority = excluded.priority,
    consecutive_failures = 0,
    version = {next_version},
    last_updated_at = clock_timestamp()
WHERE NOT task.picked
RETURNING true

-- name: reschedule
UPDATE {schema}.scheduled_tasks AS task
SET
    task_data = CASE WHEN %(keep)s THEN task_data ELSE %(data)s::bytea END,
    execution_time = coalesce(%(at)s::timestamptz, statement_timestamp()),
    consecutive_failures = 0,
    version = {next_version},
    last_updated_at = clock_timestamp()
WHERE task_name = %(task)s AND task_instance = %(instance)s AND NOT picked
RETURNING true

-- name: cancel
WITH cancelled AS (
    DELETE FROM {schema}.scheduled_tasks
    WHERE task_name = %(task)s AND task_instance = %(instance)s AND NOT picked
    RETURNING task_name, task_instance
),
forgotten AS (
    DELETE FROM {schema}.request_claims AS claim
    USING cancelled
    WHERE claim.task_name = cancelled.task_name AND claim.task_instance = cancelled.task_instance
)
SELECT true FROM cancelled

-- name: is_running
SELECT true FROM {schema}.scheduled_tasks WHERE task_name = %(task)s AND task_instance = %(instance)s AND picked

-- name: revive
WITH parked AS (
    UPDATE {schema}.request_outcomes
    SET dismissed_at = clock_timestamp()
    WHERE
        dismissed_at IS NULL
        AND outcome = 'failed'
        AND outcome_id = (SELECT max(outcome_id) FROM {schema}.request_outcomes WHERE task_instance = %(instance)s)
    RETURNING task_data, priority
)
INSERT INTO {schema}.scheduled_tasks (task_name, task_instance, task_data, execution_time, picked, version, priority)
SELECT
    %(task)s,
    %(instance)s,
    CASE WHEN %(keep)s THEN task_data ELSE %(data)s::bytea END,
    coalesce(%(at)s::timestamptz, statement_timestamp()),
    false,
    1,
    priority
FROM parked
ON CONFLICT (task_name, task_instance) DO NOTHING
RETURNING true

-- name: dismiss
UPDATE {schema}.request_outcomes
SET dismissed_at = clock_timestamp()
WHERE
    dismissed_at IS NULL
    AND outcome = 'failed'
    AND outcome_id = (SELECT max(outcome_id) FROM {schema}.request_outcomes WHERE task_instance = %(instance)s)
RETURNING true

-- name: live
SELECT
    task.task_instance,
    CASE WHEN task.picked THEN 'running' ELSE 'waiting' END,
    task.execution_time,
    task.task_data,
    task.priority,
    coalesce(task.consecutive_failures, 0),
    claim.last_error,
    claim.run_id,
    task.created_at,
    CASE WHEN task.picked AND isfinite(task.last_heartbeat) THEN task.last_heartbeat END
FROM {schema}.scheduled_tasks AS task
LEFT JOIN {schema}.request_claims AS claim
    ON
        claim.task_name = task.task_name
        AND claim.task_instance = task.task_instance
        AND claim.row_created_at = task.created_at
WHERE task.task_name = %(task)s AND (%(instance)s::text IS NULL OR task.task_instance = %(instance)s)
ORDER BY task.picked DESC, task.execution_time, task.task_instance
LIMIT %(limit)s

-- name: outcomes
SELECT
    task_instance,
    outcome,
    execution_time,
    task_data,
    priority,
    attempts,
    error,
    run_id,
    created_at,
    ended_at
FROM {schema}.request_outcomes
WHERE task_instance = %(instance)s
ORDER BY outcome_id DESC
LIMIT %(limit)s

-- name: parked
SELECT
    parked.task_instance,
    parked.outcome,
    parked.execution_time,
    parked.task_data,
    parked.priority,
    parked.attempts,
    parked.error,
    parked.run_id,
    parked.created_at,
    parked.ended_at
FROM {schema}.request_outcomes AS parked
WHERE
    parked.outcome = 'failed'
    AND parked.dismissed_at IS NULL
    AND NOT EXISTS (
        SELECT FROM {schema}.request_outcomes AS later
        WHERE later.task_instance = parked.task_instance AND later.outcome_id > parked.outcome_id
    )
    AND NOT EXISTS (
        SELECT FROM {schema}.scheduled_tasks AS task
        WHERE task.task_name = %(task)s AND task.task_instance = parked.task_instance
    )
    AND (%(instance)s::text IS NULL OR parked.task_instance = %(instance)s)
ORDER BY parked.outcome_id DESC
LIMIT %(limit)s
