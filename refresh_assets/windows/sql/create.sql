-- name: absent
SELECT
    to_regnamespace(quote_ident({schema})) IS NULL,
    to_regclass(format('%I.activity_metrics', {schema}::text)) IS NULL,
    to_regclass(format('%I.window_loads', {schema}::text)) IS NULL,
    to_regclass(format('%I.window_state', {schema}::text)) IS NULL

-- name: create_lock
SELECT pg_advisory_xact_lock(hashtext('refresh:create:' || {schema}))

-- name: schema
CREATE SCHEMA IF NOT EXISTS {schema}

-- name: metrics
CREATE TABLE IF NOT EXISTS {schema}.activity_metrics (
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    course text NOT NULL,
    kind text NOT NULL,
    events bigint,
    learners bigint,
    first_event timestamptz,
    last_event timestamptz,
    suppressed boolean NOT NULL,
    PRIMARY KEY (since, course, kind),
    CHECK (since < until),
    CHECK (num_nulls(events, learners, first_event, last_event) = CASE WHEN suppressed THEN 4 ELSE 0 END)
)

-- name: loads
-- No two windows may share a moment, or its events would count twice.
CREATE TABLE IF NOT EXISTS {schema}.window_loads (
    since timestamptz PRIMARY KEY,
    until timestamptz NOT NULL,
    rows bigint NOT NULL,
    rows_digest text NOT NULL,
    source_mark text NOT NULL,
    stale_since timestamptz,
    loaded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_id text,
    CHECK (since < until),
    EXCLUDE USING gist (tstzrange(since, until) WITH &&)
)

-- name: state
CREATE TABLE IF NOT EXISTS {schema}.window_state (
    job text PRIMARY KEY,
    first timestamptz NOT NULL,
    marker timestamptz NOT NULL,
    cron text NOT NULL,
    timezone text NOT NULL,
    source text,
    CHECK (first <= marker)
)

-- name: source_column
-- Whether the state has the column that tables of an earlier version lack, and whether the role may add it.
SELECT
    EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = tables.oid AND attname = 'source' AND NOT attisdropped
    ),
    pg_has_role(tables.relowner, 'USAGE')
FROM pg_class AS tables
WHERE tables.oid = to_regclass(format('%I.window_state', {schema}::text))

-- name: add_source
ALTER TABLE {schema}.window_state ADD COLUMN IF NOT EXISTS source text
