-- name: claim
WITH due AS (
    SELECT task_name, task_instance
    FROM {schema}.scheduled_tasks
    WHERE
        task_name = %(task)s
        AND NOT picked
        AND execution_time <= coalesce(%(now)s::timestamptz, statement_timestamp())
    ORDER BY priority DESC NULLS LAST, execution_time, task_instance
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE {schema}.scheduled_tasks AS task
    SET
        picked = true,
        picked_by = gen_random_uuid()::text,
        last_heartbeat = coalesce(%(now)s::timestamptz, statement_timestamp()),
        version = {next_version},
        consecutive_failures = {failures},
        last_updated_at = clock_timestamp()
    FROM due
    WHERE task.task_name = due.task_name AND task.task_instance = due.task_instance
    RETURNING task.*
),
noted AS (
    INSERT INTO {schema}.request_claims AS claim (
        task_name, task_instance, row_created_at, version, task_data, token, attempt, claimed_at
    )
    SELECT
        task_name, task_instance, created_at, version, task_data, picked_by::uuid,
        coalesce(consecutive_failures, 0) + 1, last_heartbeat
    FROM claimed
    ON CONFLICT (task_name, task_instance) DO UPDATE
    SET
        row_created_at = excluded.row_created_at,
        version = excluded.version,
        task_data = excluded.task_data,
        token = excluded.token,
        attempt = excluded.attempt,
        claimed_at = excluded.claimed_at,
        run_id = NULL,
        started_at = NULL,
        suspected_at = NULL,
        parts = '{{}}',
        -- What was done counts for as long as nobody asked anew in between; not everybody counts the version up.
        done = CASE
            WHEN
                claim.row_created_at = excluded.row_created_at
                AND claim.version = excluded.version - 1
                AND claim.task_data IS NOT DISTINCT FROM excluded.task_data
                THEN claim.done
            ELSE '{{}}'
        END
    RETURNING task_name, task_instance, attempt, done
)
SELECT
    claimed.task_instance, claimed.picked_by, claimed.task_data, claimed.priority, noted.attempt, noted.done
FROM claimed
JOIN noted ON noted.task_name = claimed.task_name AND noted.task_instance = claimed.task_instance
ORDER BY claimed.priority DESC NULLS LAST, claimed.execution_time, claimed.task_instance

-- name: held
WITH held AS (
    SELECT task.task_name, task.task_instance, task.task_data
    FROM {schema}.scheduled_tasks AS task
    JOIN {schema}.request_claims AS claim
        ON claim.task_name = task.task_name AND claim.task_instance = task.task_instance
    WHERE
        task.task_name = %(task)s
        AND task.picked
        AND task.picked_by = claim.token::text
        AND claim.run_id IS NULL
        AND {silence} >= %(untouched)s
    ORDER BY task.last_heartbeat, task.task_instance
    LIMIT %(limit)s
    FOR UPDATE OF task SKIP LOCKED
),
noted AS (
    -- It is run for what it asks for now.
    UPDATE {schema}.request_claims AS claim
    SET
        task_data = held.task_data,
        done = CASE WHEN claim.task_data IS NOT DISTINCT FROM held.task_data THEN claim.done ELSE '{{}}' END
    FROM held
    WHERE claim.task_name = held.task_name AND claim.task_instance = held.task_instance
    RETURNING claim.task_name, claim.task_instance, claim.attempt, claim.done
)
UPDATE {schema}.scheduled_tasks AS task
SET last_heartbeat = coalesce(%(now)s::timestamptz, statement_timestamp())
FROM noted
WHERE task.task_name = noted.task_name AND task.task_instance = noted.task_instance
RETURNING task.task_instance, task.picked_by, task.task_data, task.priority, noted.attempt, noted.done

-- name: plan
UPDATE {schema}.request_claims SET parts = %(parts)s WHERE token = %(token)s::uuid

-- name: bind
UPDATE {schema}.request_claims AS claim
SET
    run_id = %(run_id)s,
    started_at = CASE WHEN %(started)s THEN coalesce(claim.started_at, statement_timestamp()) ELSE claim.started_at END
FROM {schema}.scheduled_tasks AS task
WHERE
    claim.token = %(token)s::uuid
    AND (claim.run_id IS NULL OR claim.run_id = %(run_id)s)
    AND task.task_name = claim.task_name
    AND task.task_instance = claim.task_instance
    AND task.picked
    AND task.picked_by = %(token)s::text
RETURNING claim.task_instance

-- name: beat
UPDATE {schema}.scheduled_tasks
SET last_heartbeat = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE task_name = %(task)s AND picked AND picked_by = %(token)s::text

-- name: vanish
-- A process that is frozen keeps its connection: the server ends it when no heartbeat comes.
SELECT set_config(name, %(idle)s, false) FROM pg_settings WHERE name = 'idle_session_timeout'

-- name: seal
WITH mine AS (
    SELECT task_name, task_instance
    FROM {schema}.scheduled_tasks
    WHERE task_name = %(task)s AND picked AND picked_by = %(token)s::text
    FOR UPDATE
)
UPDATE {schema}.request_claims AS claim
SET
    run_id = %(run_id)s,
    done = CASE WHEN %(part)s::text = ANY (claim.done) THEN claim.done ELSE claim.done || %(part)s::text END
FROM mine
WHERE
    claim.task_name = mine.task_name
    AND claim.task_instance = mine.task_instance
    AND claim.token = %(token)s::uuid
    AND (claim.run_id IS NULL OR claim.run_id = %(run_id)s)
RETURNING claim.task_instance

-- name: in_work
SELECT task.task_instance, claim.token::text, claim.run_id
FROM {schema}.scheduled_tasks AS task
JOIN {schema}.request_claims AS claim
    ON claim.task_name = task.task_name AND claim.task_instance = task.task_instance
WHERE task.task_name = %(task)s AND task.picked AND task.picked_by = claim.token::text
ORDER BY claim.claimed_at, task.task_instance
LIMIT %(limit)s
