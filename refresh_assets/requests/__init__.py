"""One refresh, at an instant, asked for by a row in the database."""
