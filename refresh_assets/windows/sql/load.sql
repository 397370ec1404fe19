-- name: session
SELECT
    set_config('TimeZone', 'UTC', false),
    set_config('DateStyle', 'ISO, MDY', false),
    set_config('IntervalStyle', 'postgres', false),
    set_config('extra_float_digits', '1', false),
    set_config('row_security', 'off', false)

-- name: vanish
-- A host that is gone must not keep its locks for hours.
SELECT set_config(name, wanted, false)
FROM pg_settings
JOIN (
    VALUES
        ('tcp_keepalives_idle', '30'),
        ('tcp_keepalives_interval', '10'),
        ('tcp_keepalives_count', '3')
) AS wishes (name, wanted) USING (name)

-- name: idle
-- A frozen one least of all. Older servers have no such time-out.
SELECT set_config(name, {idle}::text, false) FROM pg_settings WHERE name = 'idle_session_timeout'

-- name: idle_as_before
SELECT set_config(name, reset_val, false) FROM pg_settings WHERE name = 'idle_session_timeout'

-- name: gate
-- So that two starts at once do not share the windows among them: the first takes all that it wants.
SELECT pg_advisory_xact_lock(hashtextextended('refresh:windows:' || {schema}, 0))

-- name: try_locks
SELECT n, pg_try_advisory_lock(hashtextextended('refresh:window:' || {schema} || ':' || name, 0))
FROM unnest({names}::text[]) WITH ORDINALITY AS wanted (name, n)
ORDER BY n

-- name: unlock
SELECT pg_advisory_unlock_all()

-- name: drop_stage
DROP TABLE IF EXISTS pg_temp.window_cells, pg_temp.window_rows

-- name: cells
CREATE TEMPORARY TABLE window_cells (
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    course text NOT NULL,
    kind text NOT NULL,
    events bigint NOT NULL,
    learners bigint NOT NULL,
    first_event timestamptz NOT NULL,
    last_event timestamptz NOT NULL
)

-- name: rows
CREATE TEMPORARY TABLE window_rows (
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    course text NOT NULL,
    kind text NOT NULL,
    events bigint,
    learners bigint,
    first_event timestamptz,
    last_event timestamptz,
    suppressed boolean NOT NULL
)

-- name: analyze_cells
ANALYZE pg_temp.window_cells

-- name: rows_index
CREATE INDEX ON pg_temp.window_rows (since)

-- name: strays
-- Cells outside their window or of no window that was asked for would be published nowhere, or count twice.
SELECT count(*)
FROM pg_temp.window_cells AS cells
LEFT JOIN unnest({sinces}::timestamptz[], {untils}::timestamptz[]) AS wanted (since, until) USING (since, until)
WHERE wanted.since IS NULL OR cells.first_event < cells.since OR cells.last_event >= cells.until

-- name: delete
DELETE FROM {schema}.activity_metrics WHERE since >= {since} AND since < {until}

-- name: insert
INSERT INTO {schema}.activity_metrics (
    since, until, course, kind, events, learners, first_event, last_event, suppressed
)
SELECT since, until, course, kind, events, learners, first_event, last_event, suppressed
FROM pg_temp.window_rows
WHERE since = {since} AND until = {until}
ORDER BY course COLLATE "C", kind COLLATE "C"

-- name: digest
SELECT
    count(*),
    encode(
        sha256(
            convert_to(
                coalesce(
                    string_agg(
                        md5(
                            row(
                                since, until, course, kind, events, learners, first_event, last_event, suppressed
                            )::text
                        ),
                        '' ORDER BY course COLLATE "C", kind COLLATE "C"
                    ),
                    ''
                ),
                'UTF8'
            )
        ),
        'hex'
    )
FROM {schema}.activity_metrics
WHERE since = {since} AND until = {until}

-- name: write_load
INSERT INTO {schema}.window_loads (since, until, rows, rows_digest, source_mark, run_id)
VALUES ({since}, {until}, {rows}, {rows_digest}, {source_mark}, {run_id})
ON CONFLICT (since) DO UPDATE
SET
    rows = excluded.rows,
    rows_digest = excluded.rows_digest,
    source_mark = excluded.source_mark,
    stale_since = NULL,
    loaded_at = excluded.loaded_at,
    run_id = excluded.run_id
WHERE window_loads.until = excluded.until

-- name: begin_state
-- A state of an earlier version does not say which log it was loaded from: it is taken for the present one.
INSERT INTO {schema}.window_state AS state (job, first, marker, cron, timezone, source)
VALUES ({job}, {first}, {first}, {cron}, {timezone}, {source})
ON CONFLICT (job) DO UPDATE SET source = excluded.source WHERE state.source IS NULL

-- name: begin_state_without_source
INSERT INTO {schema}.window_state (job, first, marker, cron, timezone)
VALUES ({job}, {first}, {first}, {cron}, {timezone})
ON CONFLICT (job) DO NOTHING

-- name: hold_state
SELECT first, marker, cron, timezone, to_jsonb(state) ->> 'source'
FROM {schema}.window_state AS state
WHERE job = {job}
FOR UPDATE

-- name: advance
WITH RECURSIVE later AS (
    SELECT marker AS reached FROM {schema}.window_state WHERE job = {job}
    UNION ALL
    SELECT loads.until FROM later JOIN {schema}.window_loads AS loads ON loads.since = later.reached
), earlier AS (
    SELECT first AS reached FROM {schema}.window_state WHERE job = {job}
    UNION ALL
    SELECT loads.since FROM earlier JOIN {schema}.window_loads AS loads ON loads.until = earlier.reached
)
UPDATE {schema}.window_state
SET
    marker = greatest(marker, (SELECT max(reached) FROM later)),
    first = least(first, (SELECT min(reached) FROM earlier))
WHERE job = {job}
RETURNING first, marker, cron, timezone, to_jsonb(window_state) ->> 'source'
