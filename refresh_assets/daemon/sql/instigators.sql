-- name: never_updated
-- Only the first update of a state writes its selector into this table.
SELECT job_body FROM jobs WHERE selector_id IS NULL ORDER BY id LIMIT 1000

-- name: complete
INSERT INTO instigators (selector_id, repository_selector_id, status, instigator_type, instigator_body)
VALUES (%(selector)s, %(repository)s, %(status)s, %(type)s, %(body)s)
ON CONFLICT (selector_id) DO NOTHING
