-- name: read_only
SET default_transaction_read_only = on

-- name: present
SELECT
    to_regclass({events}) IS NOT NULL,
    to_regclass('refresh_alerts.alert_outbox') IS NOT NULL,
    to_regclass('refresh_alerts.spell') IS NOT NULL AND to_regclass('refresh_alerts.noted') IS NOT NULL,
    clock_timestamp()
