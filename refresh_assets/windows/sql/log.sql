-- name: drop
DROP TABLE IF EXISTS pg_temp.window_log

-- name: create
-- A row is an event, or where it has a course it tells what the cell of that number is.
CREATE TEMPORARY TABLE window_log (
    cell integer NOT NULL,
    learner text COLLATE "C",
    at bigint,
    line bigint,
    win integer,
    course text,
    kind text
) ON COMMIT DROP

-- name: copy
COPY pg_temp.window_log FROM STDIN

-- name: memory
SELECT set_config('work_mem', greatest(setting::bigint, 65536)::text, true)
FROM pg_settings
WHERE name = 'work_mem'

-- name: fill
-- One sort serves all three steps: lines that are there once, learners of a cell, cells.
INSERT INTO pg_temp.window_cells (since, until, course, kind, events, learners, first_event, last_event)
WITH meanings AS MATERIALIZED (
    -- A cell may have several numbers; the least of them stands for all.
    SELECT cell, win, course, kind, min(cell) OVER (PARTITION BY win, course, kind) AS same
    FROM pg_temp.window_log
    WHERE course IS NOT NULL
),
sorted AS (
    SELECT same, learner, at, line
    FROM pg_temp.window_log AS events
    JOIN meanings USING (cell)
    WHERE events.course IS NULL
    ORDER BY same, learner, at, line
),
counted AS (
    SELECT
        same,
        sum(events)::bigint AS events,
        count(learner) AS learners,
        min(first_at) AS first_at,
        max(last_at) AS last_at
    FROM (
        SELECT same, learner, count(*) AS events, min(at) AS first_at, max(at) AS last_at
        FROM (SELECT DISTINCT same, learner, at, line FROM sorted) AS lines
        GROUP BY same, learner
    ) AS by_learner
    GROUP BY same
)
SELECT
    since,
    until,
    course,
    kind,
    events,
    learners,
    'epoch'::timestamptz + first_at * interval '1 microsecond',
    'epoch'::timestamptz + last_at * interval '1 microsecond'
FROM counted
JOIN meanings ON meanings.cell = counted.same
JOIN unnest(%(since)s::timestamptz[], %(until)s::timestamptz[]) WITH ORDINALITY AS windows (since, until, win)
USING (win)

-- name: counted
SELECT coalesce(sum(events), 0)::bigint FROM pg_temp.window_cells
