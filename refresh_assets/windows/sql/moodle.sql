-- name: session
-- With row security on, events that a policy hides would be left out without a word; off, it is an error.
SELECT
    set_config('default_transaction_read_only', 'on', false),
    set_config('row_security', 'off', false)

-- name: columns
SELECT attname::text
FROM pg_attribute
WHERE attrelid = to_regclass({name}) AND attnum > 0 AND NOT attisdropped

-- name: cells
-- Grouped by one text in the "C" collation and counted in the order of the sort: two grouping steps, or a sort by the
-- rules of a language, take several times as long.
COPY (
    SELECT
        win,
        coalesce(nullif(course, 0)::text, 'site'),
        kind,
        count(*),
        count(DISTINCT learner),
        min(timecreated),
        max(timecreated),
        sum(id)
    FROM (
        SELECT
            {win} AS win,
            coalesce(courseid, 0) AS course,
            coalesce(component || '.' || target || '.' || action, 'other') COLLATE "C" AS kind,
            CASE WHEN {is_learner} THEN userid END AS learner,
            timecreated,
            id::bigint AS id
        FROM {table}
        WHERE {within}
    ) AS events
    GROUP BY win, course, kind
) TO STDOUT

-- name: look
SELECT {win} AS win, count(*), sum(id::bigint) FROM {table} WHERE {within} GROUP BY 1

-- name: create
CREATE TEMPORARY TABLE window_moodle (
    win integer NOT NULL,
    course text NOT NULL,
    kind text NOT NULL,
    events bigint NOT NULL,
    learners bigint NOT NULL,
    first_event bigint NOT NULL,
    last_event bigint NOT NULL,
    ids numeric NOT NULL
) ON COMMIT DROP

-- name: copy
COPY pg_temp.window_moodle FROM STDIN

-- name: fill
INSERT INTO pg_temp.window_cells (since, until, course, kind, events, learners, first_event, last_event)
SELECT since, until, course, kind, events, learners, to_timestamp(first_event), to_timestamp(last_event)
FROM pg_temp.window_moodle
JOIN unnest(%(since)s::timestamptz[], %(until)s::timestamptz[]) WITH ORDINALITY AS windows (since, until, win)
USING (win)

-- name: seen
SELECT win, sum(events)::bigint, sum(ids)::text FROM pg_temp.window_moodle GROUP BY win

-- name: drop
DROP TABLE IF EXISTS pg_temp.window_moodle
