-- name: suppress
INSERT INTO pg_temp.window_rows
    (since, until, course, kind, events, learners, first_event, last_event, suppressed)
SELECT
    since,
    until,
    course,
    kind,
    CASE WHEN shown THEN events END,
    CASE WHEN shown THEN learners END,
    CASE WHEN shown THEN first_event END,
    CASE WHEN shown THEN last_event END,
    NOT shown
FROM (SELECT *, learners >= %(min_cell)s AS shown FROM pg_temp.window_cells) AS cells
ORDER BY since, course COLLATE "C", kind COLLATE "C"
