-- name: try_lock
SELECT pg_try_advisory_xact_lock(hashtext('refresh:' || {name}))

-- name: state
SELECT job_key, parts FROM {schema}.refresh_state WHERE job = {job}

-- name: past_loads
SELECT
    load_id, loaded_at, job_key, rows_staged, rows_kept, fingerprint, fingerprint_modulus, parts, job,
    run_id, added, changed, removed, seconds, drifted, shrink_accepted,
    -- A table of an earlier version has no such column until the next load.
    to_jsonb(refresh_loads) ->> 'instead_of'
FROM {schema}.refresh_loads
WHERE {condition}
ORDER BY load_id DESC
LIMIT {limit}

-- name: versions_used
SELECT DISTINCT parts ->> 'transform', transform_fingerprint, parts ->> 'schema', schema_fingerprint
FROM {schema}.refresh_loads
WHERE job = {job}

-- name: write_state
INSERT INTO {schema}.refresh_state (job, job_key, parts)
VALUES ({job}, {job_key}, {parts})
ON CONFLICT (job) DO UPDATE SET job_key = excluded.job_key, parts = excluded.parts

-- name: write_load
INSERT INTO {schema}.refresh_loads (
    job, job_key, parts, run_id, rows_staged, rows_kept, added, changed, removed, seconds, drifted, shrink_accepted,
    fingerprint, fingerprint_modulus, transform_fingerprint, schema_fingerprint, instead_of
)
VALUES (
    {job}, {job_key}, {parts}, {run_id}, {rows_staged}, {rows_kept}, {added}, {changed}, {removed},
    extract(epoch FROM clock_timestamp() - transaction_timestamp()), {drifted}, {shrink_accepted},
    {fingerprint}, {fingerprint_modulus}, {transform_fingerprint}, {schema_fingerprint}, {instead_of}
)
RETURNING load_id, loaded_at

-- name: prune_loads
DELETE FROM {schema}.refresh_loads
WHERE job = {job} AND load_id < (
    SELECT min(load_id) FROM (
        SELECT load_id FROM {schema}.refresh_loads WHERE job = {job} ORDER BY load_id DESC LIMIT {keep}
    ) AS kept
)
