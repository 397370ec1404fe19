-- name: absent
SELECT to_regnamespace('refresh_alerts') IS NULL, to_regclass('refresh_alerts.alert_outbox') IS NULL

-- name: create_lock
SELECT pg_advisory_xact_lock(hashtext('refresh:create:refresh_alerts'))

-- name: schema
CREATE SCHEMA IF NOT EXISTS refresh_alerts

-- name: outbox
CREATE TABLE IF NOT EXISTS refresh_alerts.alert_outbox (
    alert_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_key text NOT NULL UNIQUE,
    kind text NOT NULL,
    about text NOT NULL,
    subject text NOT NULL,
    body text NOT NULL,
    html text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error text,
    delivered_to text[] NOT NULL DEFAULT '{}',
    sent_at timestamptz
)

-- name: due_index
CREATE INDEX IF NOT EXISTS alert_outbox_due ON refresh_alerts.alert_outbox (next_attempt_at, alert_id)
WHERE sent_at IS NULL
