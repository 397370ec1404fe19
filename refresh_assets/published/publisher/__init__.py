"""What is published: the manifest, and the files, fetched into a cache."""
