-- name: record
INSERT INTO refresh_alerts.alert_outbox (event_key, kind, about, subject, body, html)
VALUES (%(event_key)s, %(kind)s, %(about)s, %(subject)s, %(body)s, %(html)s)
ON CONFLICT (event_key) DO NOTHING
RETURNING alert_id

-- name: owed
SELECT
    count(*),
    min(created_at),
    (
        SELECT last_error
        FROM refresh_alerts.alert_outbox
        WHERE sent_at IS NULL AND last_error IS NOT NULL
        ORDER BY next_attempt_at DESC, alert_id DESC
        LIMIT 1
    )
FROM refresh_alerts.alert_outbox
WHERE sent_at IS NULL

-- name: prune
DELETE FROM refresh_alerts.alert_outbox
WHERE
    sent_at < clock_timestamp() - make_interval(days => %(sent_days)s)
    OR (sent_at IS NULL AND created_at < clock_timestamp() - make_interval(days => %(owed_days)s))
    OR (
        sent_at IS NOT NULL
        AND alert_id < (
            SELECT min(alert_id) FROM (
                SELECT alert_id
                FROM refresh_alerts.alert_outbox
                WHERE sent_at IS NOT NULL
                ORDER BY alert_id DESC
                LIMIT %(keep)s
            ) AS kept
        )
    )
