-- name: complete
WITH ended AS (
    DELETE FROM {schema}.scheduled_tasks AS task
    USING {schema}.request_claims AS claim
    WHERE
        claim.token = %(token)s::uuid
        AND claim.done @> claim.parts
        AND claim.task_data IS NOT DISTINCT FROM task.task_data
        AND task.task_name = claim.task_name
        AND task.task_instance = claim.task_instance
        AND task.picked
        AND task.picked_by = %(token)s::text
    RETURNING
        task.task_instance, task.task_data, task.priority, task.execution_time, task.created_at,
        claim.token, claim.attempt, claim.run_id
),
forgotten AS (
    DELETE FROM {schema}.request_claims AS claim USING ended WHERE claim.token = ended.token
)
INSERT INTO {schema}.request_outcomes (
    task_instance, outcome, token, task_data, priority, execution_time, created_at, ended_at, attempts, run_id
)
SELECT
    task_instance, 'done', token, task_data, priority, execution_time, created_at,
    coalesce(%(now)s::timestamptz, statement_timestamp()), attempt, run_id
FROM ended
RETURNING task_instance

-- name: park
WITH ended AS (
    DELETE FROM {schema}.scheduled_tasks AS task
    USING {schema}.request_claims AS claim
    WHERE
        claim.token = %(token)s::uuid
        AND task.task_name = claim.task_name
        AND task.task_instance = claim.task_instance
        AND task.picked
        AND task.picked_by = %(token)s::text
    RETURNING
        task.task_instance, task.task_data, task.priority, task.execution_time, task.created_at,
        claim.token, claim.attempt, claim.run_id
),
forgotten AS (
    DELETE FROM {schema}.request_claims AS claim USING ended WHERE claim.token = ended.token
)
INSERT INTO {schema}.request_outcomes (
    task_instance, outcome, token, task_data, priority, execution_time, created_at, ended_at, attempts, run_id, error
)
SELECT
    task_instance, %(outcome)s, token, task_data, priority, execution_time, created_at,
    coalesce(%(now)s::timestamptz, statement_timestamp()), attempt, run_id, %(error)s
FROM ended
RETURNING task_instance

-- name: retry
WITH released AS (
    UPDATE {schema}.scheduled_tasks AS task
    SET
        picked = false,
        picked_by = NULL,
        last_heartbeat = NULL,
        last_failure = coalesce(%(now)s::timestamptz, statement_timestamp()),
        consecutive_failures = {failures} + 1,
        execution_time = coalesce(%(now)s::timestamptz, statement_timestamp())
        + make_interval(
            secs => least(
                %(longest)s::double precision,
                %(delay)s::double precision * power(%(growth)s::double precision, least({failures}, 50))
            )
        ),
        version = {next_version},
        last_updated_at = clock_timestamp()
    FROM {schema}.request_claims AS claim
    WHERE
        claim.token = %(token)s::uuid
        AND task.task_name = claim.task_name
        AND task.task_instance = claim.task_instance
        AND task.picked
        AND task.picked_by = %(token)s::text
        AND {failures} + 1 < %(attempts)s
    RETURNING task.task_name, task.task_instance, task.version, task.execution_time
)
UPDATE {schema}.request_claims AS claim
SET version = released.version, last_error = %(error)s
FROM released
WHERE claim.task_name = released.task_name AND claim.task_instance = released.task_instance
RETURNING released.execution_time

-- name: postpone
WITH released AS (
    UPDATE {schema}.scheduled_tasks AS task
    SET
        picked = false,
        picked_by = NULL,
        last_heartbeat = NULL,
        execution_time = coalesce(%(now)s::timestamptz, statement_timestamp()) + make_interval(secs => %(delay)s),
        version = {next_version},
        last_updated_at = clock_timestamp()
    FROM {schema}.request_claims AS claim
    WHERE
        claim.token = %(token)s::uuid
        AND task.task_name = claim.task_name
        AND task.task_instance = claim.task_instance
        AND task.picked
        AND task.picked_by = %(token)s::text
    RETURNING task.task_name, task.task_instance, task.version, task.execution_time
)
UPDATE {schema}.request_claims AS claim
SET version = released.version, last_error = %(error)s
FROM released
WHERE claim.task_name = released.task_name AND claim.task_instance = released.task_instance
RETURNING released.execution_time

-- name: release_strays
-- Picked by nobody whom we know: written so by another program, or our own note of it was lost.
UPDATE {schema}.scheduled_tasks AS task
SET
    picked = false,
    picked_by = NULL,
    last_heartbeat = NULL,
    version = {next_version},
    last_updated_at = clock_timestamp()
WHERE
    task.task_name = %(task)s
    AND task.picked
    AND NOT EXISTS (
        SELECT FROM {schema}.request_claims AS claim
        WHERE
            claim.task_name = task.task_name
            AND claim.task_instance = task.task_instance
            AND claim.token::text = task.picked_by
    )
    AND {silence} > %(silent)s

-- name: suspect
UPDATE {schema}.request_claims AS claim
SET suspected_at = CASE
    WHEN
        {silence} > %(silent)s
        AND NOT EXISTS (
            SELECT FROM pg_stat_activity WHERE application_name = %(session)s || claim.token::text
        )
        THEN least(claim.suspected_at, coalesce(%(now)s::timestamptz, statement_timestamp()))
END
FROM {schema}.scheduled_tasks AS task
WHERE
    claim.started_at IS NOT NULL
    AND task.task_name = claim.task_name
    AND task.task_instance = claim.task_instance
    AND task.picked
    AND task.picked_by = claim.token::text
RETURNING
    claim.task_instance,
    claim.token::text,
    claim.run_id,
    CASE WHEN isfinite(task.last_heartbeat) THEN task.last_heartbeat ELSE claim.claimed_at END,
    coalesce(
        claim.suspected_at
        <= coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(secs => %(look)s),
        false
    )

-- name: failed
SELECT outcome_id, token::text, task_instance, task_data, attempts, run_id, error, ended_at
FROM {schema}.request_outcomes
WHERE outcome = 'failed' AND (ended_at, outcome_id) > (%(since)s, %(after)s)
ORDER BY ended_at, outcome_id
LIMIT %(limit)s

-- name: prune_outcomes
DELETE FROM {schema}.request_outcomes
WHERE
    (
        ended_at < clock_timestamp() - make_interval(days => %(days)s)
        AND (outcome <> 'failed' OR dismissed_at IS NOT NULL)
    )
    OR ended_at < clock_timestamp() - make_interval(days => %(failed_days)s)
    OR outcome_id < (
        SELECT min(outcome_id) FROM (
            SELECT outcome_id FROM {schema}.request_outcomes ORDER BY outcome_id DESC LIMIT %(keep)s
        ) AS kept
    )

-- name: prune_claims
DELETE FROM {schema}.request_claims AS claim
WHERE NOT EXISTS (
    SELECT FROM {schema}.scheduled_tasks AS task
    WHERE
        task.task_name = claim.task_name
        AND task.task_instance = claim.task_instance
        AND task.created_at = claim.row_created_at
)
