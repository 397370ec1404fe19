-- name: repeated_keys
SELECT count(*) FROM (SELECT FROM {target} GROUP BY {key} HAVING count(*) > 1) AS repeated
