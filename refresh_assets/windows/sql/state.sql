-- name: state
-- The table may be of an earlier version, which has no column `source`.
SELECT first, marker, cron, timezone, to_jsonb(state) ->> 'source'
FROM {schema}.window_state AS state
WHERE job = {job}

-- name: loads
SELECT since, until, rows, rows_digest, source_mark, stale_since, loaded_at, run_id
FROM {schema}.window_loads
WHERE since >= {since} AND until <= {until}
ORDER BY since

-- name: mark_stale
UPDATE {schema}.window_loads
SET stale_since = now()
WHERE since = {since} AND until = {until} AND stale_since IS NULL AND source_mark = {source_mark}

-- name: unmark
UPDATE {schema}.window_loads
SET stale_since = NULL
WHERE since = {since} AND until = {until} AND stale_since IS NOT NULL AND source_mark = {source_mark}

-- name: now
SELECT now()
