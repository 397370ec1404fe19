-- name: claim
UPDATE refresh_alerts.alert_outbox
SET attempts = attempts + 1, next_attempt_at = clock_timestamp() + make_interval(secs => %(lease)s)
WHERE alert_id = (
    SELECT alert_id
    FROM refresh_alerts.alert_outbox
    WHERE
        sent_at IS NULL
        -- Nothing waits for so long: the clock was ahead when it was written, and has been put right.
        AND (next_attempt_at <= clock_timestamp() OR next_attempt_at > clock_timestamp() + interval '2 hours')
    ORDER BY next_attempt_at, alert_id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING alert_id, attempts, delivered_to, event_key, kind, about, subject, body, html

-- name: sent
UPDATE refresh_alerts.alert_outbox
SET sent_at = clock_timestamp(), last_error = NULL, delivered_to = %(delivered_to)s
WHERE alert_id = %(alert_id)s AND sent_at IS NULL

-- name: failed
UPDATE refresh_alerts.alert_outbox
SET
    next_attempt_at = clock_timestamp() + make_interval(secs => %(wait)s),
    last_error = %(error)s,
    delivered_to = %(delivered_to)s
WHERE alert_id = %(alert_id)s AND sent_at IS NULL

-- name: put_off
UPDATE refresh_alerts.alert_outbox
SET next_attempt_at = clock_timestamp() + make_interval(secs => %(wait)s), last_error = %(error)s
WHERE alert_id IN (
    SELECT alert_id
    FROM refresh_alerts.alert_outbox
    WHERE sent_at IS NULL AND next_attempt_at <= clock_timestamp()
    FOR UPDATE SKIP LOCKED
)

-- name: left
SELECT count(*) FROM refresh_alerts.alert_outbox WHERE sent_at IS NULL
