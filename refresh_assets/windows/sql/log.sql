-- name: drop
DROP TABLE IF EXISTS pg_temp.window_log

-- name: create
CREATE TEMPORARY TABLE window_log (
    win integer NOT NULL,
    course text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    learner text COLLATE "C",
    at bigint NOT NULL,
    line bigint NOT NULL
) ON COMMIT DROP

-- name: copy
COPY pg_temp.window_log FROM STDIN

-- name: memory
SELECT set_config('work_mem', greatest(setting::bigint, 65536)::text, true)
FROM pg_settings
WHERE name = 'work_mem'

-- name: repeated
SELECT EXISTS (SELECT FROM pg_temp.window_log GROUP BY at, line HAVING count(*) > 1)

-- name: fill
INSERT INTO pg_temp.window_cells (since, until, course, kind, events, learners, first_event, last_event)
SELECT
    since,
    until,
    course,
    kind,
    sum(events),
    count(learner),
    'epoch'::timestamptz + min(first_at) * interval '1 microsecond',
    'epoch'::timestamptz + max(last_at) * interval '1 microsecond'
FROM (
    SELECT win, course, kind, learner, count(*) AS events, min(at) AS first_at, max(at) AS last_at
    FROM {events} AS events
    GROUP BY win, course, kind, learner
) AS by_learner
JOIN unnest(%(since)s::timestamptz[], %(until)s::timestamptz[]) WITH ORDINALITY AS windows (since, until, win)
USING (win)
GROUP BY since, until, course, kind

-- name: all_lines
pg_temp.window_log

-- name: distinct_lines
(SELECT DISTINCT win, course, kind, learner, at, line FROM pg_temp.window_log)
