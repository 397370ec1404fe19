-- name: absent
SELECT
    to_regnamespace(quote_ident({schema})) IS NULL,
    to_regclass(format('%I.refresh_state', {schema}::text)) IS NULL,
    to_regclass(format('%I.refresh_loads', {schema}::text)) IS NULL,
    EXISTS (
        SELECT FROM pg_class
        WHERE oid = to_regclass(format('%I.refresh_loads', {schema}::text)) AND NOT EXISTS (
            SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'instead_of' AND NOT attisdropped
        )
    )

-- name: lacking
-- Somebody else's table of the same name.
SELECT wanted.relation, string_agg(wanted.name, ', ' ORDER BY wanted.name)
FROM (
    SELECT 'refresh_state' AS relation, unnest(ARRAY['job', 'job_key', 'parts']) AS name
    UNION ALL
    SELECT
        'refresh_loads',
        unnest(ARRAY[
            'load_id', 'loaded_at', 'job', 'job_key', 'parts', 'run_id', 'rows_staged', 'rows_kept', 'added', 'changed',
            'removed', 'seconds', 'drifted', 'shrink_accepted', 'fingerprint', 'fingerprint_modulus',
            'transform_fingerprint', 'schema_fingerprint'
        ])
) AS wanted
WHERE
    to_regclass(format('%I.%I', {schema}::text, wanted.relation)) IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE
            attrelid = to_regclass(format('%I.%I', {schema}::text, wanted.relation))
            AND attname = wanted.name
            AND NOT attisdropped
    )
GROUP BY wanted.relation
ORDER BY wanted.relation

-- name: create_lock
SELECT pg_advisory_xact_lock(hashtext('refresh:create:' || {schema}))

-- name: schema
CREATE SCHEMA IF NOT EXISTS {schema}

-- name: state
CREATE TABLE IF NOT EXISTS {schema}.refresh_state (
    job text PRIMARY KEY,
    job_key text NOT NULL,
    parts jsonb NOT NULL
)

-- name: loads
CREATE TABLE IF NOT EXISTS {schema}.refresh_loads (
    load_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    loaded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    job text NOT NULL,
    job_key text NOT NULL,
    parts jsonb NOT NULL,
    run_id text,
    rows_staged bigint NOT NULL,
    rows_kept bigint NOT NULL,
    added bigint NOT NULL,
    changed bigint NOT NULL,
    removed bigint NOT NULL,
    seconds double precision NOT NULL,
    drifted boolean NOT NULL,
    shrink_accepted boolean NOT NULL,
    fingerprint numeric NOT NULL,
    fingerprint_modulus bigint NOT NULL,
    transform_fingerprint text NOT NULL,
    schema_fingerprint text NOT NULL,
    instead_of text
)

-- name: loads_without_wishes
ALTER TABLE {schema}.refresh_loads ADD COLUMN IF NOT EXISTS instead_of text

-- name: loads_index
CREATE INDEX IF NOT EXISTS refresh_loads_job ON {schema}.refresh_loads (job, load_id DESC)

-- name: target
CREATE TABLE {target} ({columns})

-- name: primary_key
ALTER TABLE {target} ADD PRIMARY KEY ({key})
