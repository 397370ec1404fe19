"""Fixtures for all tests."""

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
