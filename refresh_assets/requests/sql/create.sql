-- name: absent
SELECT
    to_regnamespace(quote_ident({schema})) IS NULL,
    to_regclass(format('%I.scheduled_tasks', {schema}::text)) IS NULL,
    to_regclass(format('%I.request_claims', {schema}::text)) IS NULL,
    to_regclass(format('%I.request_outcomes', {schema}::text)) IS NULL,
    to_regclass(format('%I.scheduled_tasks', {schema}::text)) IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE
            attrelid = to_regclass(format('%I.scheduled_tasks', {schema}::text))
            AND attname = 'last_updated_at'
            AND attnotnull
            AND NOT attisdropped
    ),
    to_regclass(format('%I.request_claims', {schema}::text)) IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE
            attrelid = to_regclass(format('%I.request_claims', {schema}::text))
            AND attname = 'task_data'
            AND NOT attisdropped
    )

-- name: time
SELECT clock_timestamp()

-- name: create_lock
SELECT pg_advisory_xact_lock(hashtext('refresh:create:' || {schema}))

-- name: schema
CREATE SCHEMA IF NOT EXISTS {schema}

-- name: tasks
-- The layout of db-scheduler, which its clients write and read.
CREATE TABLE IF NOT EXISTS {schema}.scheduled_tasks (
    task_name text NOT NULL,
    task_instance text NOT NULL,
    task_data bytea,
    execution_time timestamptz NOT NULL,
    picked boolean NOT NULL DEFAULT false,
    picked_by text,
    last_success timestamptz,
    last_failure timestamptz,
    consecutive_failures integer,
    last_heartbeat timestamptz,
    version bigint NOT NULL DEFAULT 1,
    priority smallint,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (task_name, task_instance),
    CONSTRAINT name_length CHECK (
        length(task_name) BETWEEN 1 AND 100 AND length(task_instance) BETWEEN 1 AND 100
    ),
    CONSTRAINT data_size CHECK (octet_length(task_data) <= 65536),
    CONSTRAINT calendar_time CHECK (
        execution_time BETWEEN '0002-01-01 00:00:00+00' AND '9998-12-31 00:00:00+00'
    )
)

-- name: adopt_columns
ALTER TABLE {schema}.scheduled_tasks
    ALTER COLUMN picked SET DEFAULT false,
    ALTER COLUMN version SET DEFAULT 1,
    ADD COLUMN IF NOT EXISTS priority smallint,
    ADD COLUMN IF NOT EXISTS created_at timestamptz,
    ADD COLUMN IF NOT EXISTS last_updated_at timestamptz,
    ALTER COLUMN created_at SET DEFAULT clock_timestamp(),
    ALTER COLUMN last_updated_at SET DEFAULT clock_timestamp()

-- name: adopt_rows
-- Where these columns are there already, they may lack a default and rows may lack their values.
UPDATE {schema}.scheduled_tasks
SET
    created_at = coalesce(created_at, clock_timestamp()),
    last_updated_at = coalesce(last_updated_at, clock_timestamp())
WHERE created_at IS NULL OR last_updated_at IS NULL

-- name: adopt
ALTER TABLE {schema}.scheduled_tasks
    ALTER COLUMN execution_time SET NOT NULL,
    ALTER COLUMN created_at SET NOT NULL,
    ALTER COLUMN last_updated_at SET NOT NULL,
    DROP CONSTRAINT IF EXISTS name_length,
    DROP CONSTRAINT IF EXISTS data_size,
    DROP CONSTRAINT IF EXISTS calendar_time,
    ADD CONSTRAINT name_length CHECK (
        length(task_name) BETWEEN 1 AND 100 AND length(task_instance) BETWEEN 1 AND 100
    ),
    ADD CONSTRAINT data_size CHECK (octet_length(task_data) <= 65536),
    ADD CONSTRAINT calendar_time CHECK (
        execution_time BETWEEN '0002-01-01 00:00:00+00' AND '9998-12-31 00:00:00+00'
    )

-- name: due_index
CREATE INDEX IF NOT EXISTS request_due
ON {schema}.scheduled_tasks (priority DESC NULLS LAST, execution_time, task_instance)
WHERE NOT picked

-- name: picked_index
CREATE INDEX IF NOT EXISTS request_picked ON {schema}.scheduled_tasks (picked_by) WHERE picked

-- name: claims
-- What is known of a request's present attempt, and which parts of it are done, whichever attempt did them.
CREATE TABLE IF NOT EXISTS {schema}.request_claims (
    task_name text NOT NULL,
    task_instance text NOT NULL,
    row_created_at timestamptz NOT NULL,
    version bigint NOT NULL,
    task_data bytea,
    token uuid NOT NULL UNIQUE,
    attempt integer NOT NULL,
    claimed_at timestamptz NOT NULL,
    run_id text,
    started_at timestamptz,
    suspected_at timestamptz,
    parts text[] NOT NULL DEFAULT '{{}}',
    done text[] NOT NULL DEFAULT '{{}}',
    last_error text,
    PRIMARY KEY (task_name, task_instance)
)

-- name: extend_claims
ALTER TABLE {schema}.request_claims ADD COLUMN IF NOT EXISTS task_data bytea

-- name: fill_claims
UPDATE {schema}.request_claims AS claim SET task_data = task.task_data
FROM {schema}.scheduled_tasks AS task
WHERE task.task_name = claim.task_name AND task.task_instance = claim.task_instance

-- name: outcomes
CREATE TABLE IF NOT EXISTS {schema}.request_outcomes (
    outcome_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_instance text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('done', 'failed', 'cancelled')),
    token uuid NOT NULL UNIQUE,
    task_data bytea,
    priority smallint,
    execution_time timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    attempts integer NOT NULL,
    run_id text,
    error text,
    dismissed_at timestamptz
)

-- name: outcomes_index
CREATE INDEX IF NOT EXISTS request_outcomes_instance ON {schema}.request_outcomes (task_instance, outcome_id DESC)
