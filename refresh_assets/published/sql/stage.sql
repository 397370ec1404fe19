-- name: create
CREATE TEMPORARY TABLE refresh_stage ({columns}) ON COMMIT DROP

-- name: copy
COPY pg_temp.refresh_stage ({columns}) FROM STDIN (FORMAT csv)

-- name: unique
CREATE UNIQUE INDEX ON pg_temp.{table} ({key})

-- name: duplicates
SELECT {key} FROM pg_temp.{table} GROUP BY {key} HAVING count(*) > 1 LIMIT 3

-- name: count_values
SELECT coalesce({trimmed}, ''), {trimmed} IS NULL, count(*), coalesce({trimmed} = ANY ({allowed}), false)
FROM pg_temp.refresh_stage
GROUP BY 1, 2, 4
ORDER BY 3 DESC, 1

-- name: create_transformed
CREATE TEMPORARY TABLE refresh_transformed ({columns}) ON COMMIT DROP

-- name: transform
INSERT INTO pg_temp.refresh_transformed ({columns})
SELECT {expressions} FROM pg_temp.refresh_stage AS staged WHERE {keep}
