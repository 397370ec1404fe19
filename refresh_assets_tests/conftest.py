"""Fixtures for all tests: see postgres_fixtures."""

pytest_plugins = ["refresh_assets_tests.postgres_fixtures"]
