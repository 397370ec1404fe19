-- name: memory
SELECT set_config('temp_buffers', greatest(setting::bigint, {pages})::text, true)
FROM pg_settings
WHERE name = 'temp_buffers'

-- name: create
CREATE TEMPORARY TABLE refresh_stage ({columns}) ON COMMIT DROP

-- name: empty
TRUNCATE pg_temp.refresh_stage

-- name: copy
-- Frozen, which a table may be that nobody else sees yet: its rows need not be written once more to say so.
COPY {table} ({columns}) FROM STDIN (FORMAT csv, FREEZE)

-- name: unique
CREATE UNIQUE INDEX ON {table} ({key})

-- name: duplicates
SELECT {texts} FROM {table} AS staged GROUP BY {key} HAVING count(*) > 1 LIMIT 3

-- name: spellings
-- First as they are found, so that not every row has to be trimmed.
(SELECT {found} AS found, count(*) AS rows FROM {table} GROUP BY 1)

-- name: count_values
SELECT value, sum(rows)::bigint, kept, (sum(sum(rows)) FILTER (WHERE kept) OVER ())::bigint
FROM (
    SELECT {trimmed} AS value, rows, coalesce({trimmed} = ANY ({allowed}::text[]), false) AS kept
    FROM {spellings} AS spellings
) AS counted
GROUP BY value, kept
ORDER BY 2 DESC, value
LIMIT {most}

-- name: create_transformed
CREATE TEMPORARY TABLE refresh_transformed ({columns}) ON COMMIT DROP

-- name: transform
INSERT INTO pg_temp.refresh_transformed ({columns})
SELECT {expressions} FROM pg_temp.refresh_stage AS staged WHERE {keep}
