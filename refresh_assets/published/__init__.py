"""Tables kept equal to published files: what is published, how a file is read, how a table becomes equal to it."""
