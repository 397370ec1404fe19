"""A table as declared, and the locked replace that makes it equal to a file in one transaction."""
