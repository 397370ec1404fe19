-- name: columns
SELECT attname::text
FROM pg_attribute
WHERE attrelid = to_regclass({name}) AND attnum > 0 AND NOT attisdropped

-- name: cells
COPY (
    SELECT
        win,
        coalesce(nullif(course, 0)::text, 'site'),
        concat_ws('.', component, target, action),
        sum(events),
        count(learner),
        min(first_event),
        max(last_event),
        sum(ids)
    FROM (
        SELECT
            {win} AS win,
            coalesce(courseid, 0) AS course,
            component,
            target,
            action,
            CASE WHEN {is_learner} THEN userid END AS learner,
            count(*) AS events,
            min(timecreated) AS first_event,
            max(timecreated) AS last_event,
            sum(id::bigint) AS ids
        FROM {table}
        WHERE {within}
        GROUP BY 1, 2, 3, 4, 5, 6
    ) AS by_learner
    GROUP BY win, course, component, target, action
) TO STDOUT

-- name: look
SELECT {win} AS win, count(*), sum(id::bigint) FROM {table} WHERE {within} GROUP BY 1

-- name: create
CREATE TEMPORARY TABLE window_moodle (
    win integer,
    course text,
    kind text,
    events bigint NOT NULL,
    learners bigint NOT NULL,
    first_event bigint NOT NULL,
    last_event bigint NOT NULL,
    ids numeric NOT NULL,
    PRIMARY KEY (win, course, kind)
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
