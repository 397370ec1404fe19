-- name: create
CREATE TEMPORARY TABLE {table} ({columns}) ON COMMIT DROP

-- name: copy
COPY {table} ({columns}) FROM STDIN (FORMAT csv, FREEZE)

-- name: analyze
ANALYZE {table}

-- name: differences
CREATE TEMPORARY TABLE refresh_differences ON COMMIT DROP AS
SELECT
    CASE WHEN {old_mark} IS NULL THEN 'added' WHEN {new_mark} IS NULL THEN 'removed' ELSE 'changed' END AS "refresh:kind",
    {columns}
FROM pg_temp.refresh_old AS old
FULL JOIN pg_temp.refresh_new AS new ON {same_key}
WHERE {old_mark} IS NULL OR {new_mark} IS NULL OR {differs}

-- name: counts
SELECT
    count(*) FILTER (WHERE "refresh:kind" = 'added'),
    count(*) FILTER (WHERE "refresh:kind" = 'changed'),
    count(*) FILTER (WHERE "refresh:kind" = 'removed')
FROM pg_temp.refresh_differences

-- name: listed
SELECT * FROM pg_temp.refresh_differences ORDER BY {key}
