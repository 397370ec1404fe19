-- name: standing
SELECT
    count(*) FILTER (WHERE task_name = %(task)s AND NOT picked),
    count(*) FILTER (WHERE task_name = %(task)s AND NOT picked AND execution_time <= statement_timestamp()),
    min(execution_time) FILTER (WHERE task_name = %(task)s AND NOT picked AND execution_time <= statement_timestamp()),
    min(execution_time) FILTER (WHERE task_name = %(task)s AND NOT picked AND execution_time > statement_timestamp()),
    count(*) FILTER (WHERE task_name = %(task)s AND picked),
    count(*) FILTER (WHERE task_name <> %(task)s),
    statement_timestamp()
FROM {schema}.scheduled_tasks

-- name: parked
SELECT count(*)
FROM {schema}.request_outcomes AS parked
WHERE
    parked.outcome = 'failed'
    AND parked.dismissed_at IS NULL
    AND NOT EXISTS (
        SELECT FROM {schema}.request_outcomes AS later
        WHERE later.task_instance = parked.task_instance AND later.outcome_id > parked.outcome_id
    )
    AND NOT EXISTS (
        SELECT FROM {schema}.scheduled_tasks AS task
        WHERE task.task_name = %(task)s AND task.task_instance = parked.task_instance
    )
