-- name: repeated
SELECT count(*)
FROM (
    SELECT FROM {schema}.activity_metrics GROUP BY since, until, course, kind HAVING count(*) > 1
) AS repeated

-- name: broken_rows
-- Rows whose window is not loaded, or which are not what their flag says.
SELECT
    count(*) FILTER (WHERE loads.since IS NULL),
    count(*) FILTER (WHERE suppressed AND num_nonnulls(events, learners, first_event, last_event) > 0),
    count(*) FILTER (WHERE NOT suppressed AND num_nulls(events, learners, first_event, last_event) > 0),
    count(*) FILTER (WHERE NOT suppressed AND learners < {min_cell})
FROM {schema}.activity_metrics AS metrics
LEFT JOIN {schema}.window_loads AS loads USING (since, until)

-- name: sample
SELECT
    coalesce(sum(events), 0)::bigint,
    count(*) FILTER (WHERE suppressed)
FROM {schema}.activity_metrics
WHERE since = {since} AND until = {until}
