-- name: create_spellings
CREATE TEMPORARY TABLE refresh_spellings (found text COLLATE "C", rows bigint NOT NULL) ON COMMIT DROP

-- name: create_left_out
CREATE TEMPORARY TABLE refresh_left_out ({columns}) ON COMMIT DROP

-- name: add_spellings
WITH added AS (
    INSERT INTO pg_temp.refresh_spellings (found, rows)
    SELECT {found}, count(*) FROM pg_temp.refresh_stage GROUP BY 1
    RETURNING found, rows
)
SELECT coalesce(sum(rows) FILTER (WHERE {trimmed} = ANY ({allowed}::text[])), 0)::bigint FROM added

-- name: add_left_out
INSERT INTO pg_temp.refresh_left_out ({key})
SELECT {key} FROM pg_temp.refresh_stage AS staged WHERE ({keep}) IS NOT TRUE

-- name: also_kept
-- By ctid, lest the index be read row by row where rows were changed since the last vacuum; and all are counted, lest
-- each be looked up in it because one may be found soon: nearly always there is none.
SELECT count(target.ctid) FROM pg_temp.refresh_left_out AS left_out JOIN {target} AS target ON {same_key}
