-- name: limit
SELECT set_config(
    name,
    CASE WHEN setting::bigint = 0 THEN wanted ELSE least(setting::bigint, wanted) END::text,
    %(transaction_only)s
)
FROM pg_settings
JOIN (
    VALUES
        ('lock_timeout', %(lock)s::bigint),
        ('statement_timeout', %(statement)s::bigint),
        ('idle_in_transaction_session_timeout', %(idle)s::bigint)
) AS limits (name, wanted) USING (name)

-- name: dates
SELECT set_config('DateStyle', 'ISO, MDY', false)

-- name: formats
-- With row security on, rows that a policy hides would be left as they are without a word; off, it is an error.
SELECT
    set_config('row_security', 'off', true),
    set_config('TimeZone', 'UTC', true),
    set_config('DateStyle', 'ISO, MDY', true),
    set_config('IntervalStyle', 'postgres', true),
    set_config('extra_float_digits', '1', true),
    set_config('bytea_output', 'hex', true),
    set_config('xmloption', 'content', true)

-- name: hash_memory
-- 256 MB for a hash table; before PostgreSQL 15 it was not given twice as much as a sort.
SELECT set_config(name, greatest(reset_val::numeric, wanted)::text, true)
FROM pg_settings
JOIN (
    VALUES ('work_mem', 131072), ('hash_mem_multiplier', 2), ('maintenance_work_mem', 131072)
) AS asked (name, wanted) USING (name)

-- name: sort_memory
SELECT set_config(name, greatest(reset_val::numeric, wanted)::text, true)
FROM pg_settings
JOIN (VALUES ('work_mem', 262144), ('maintenance_work_mem', 131072)) AS asked (name, wanted) USING (name)
