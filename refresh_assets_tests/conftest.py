"""Fixtures for all tests."""

import signal

# A shell starts its background jobs with it ignored, and so would be every process that a test sends it to.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = [
    "refresh_assets_tests.outbox_fixtures",
    "refresh_assets_tests.postgres_fixtures",
    "refresh_assets_tests.event_logs",
    "refresh_assets_tests.published_fixtures",
    "refresh_assets_tests.requests_fixtures",
    "refresh_assets_tests.shop",
    "refresh_assets_tests.floor",
    "refresh_assets_tests.watchtower",
    "refresh_assets_tests.night_watch",
    "refresh_assets_tests.relay",
    "refresh_assets_tests.windows_fixtures",
    "refresh_assets_tests.requests_clerk",
]
