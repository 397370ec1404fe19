"""One leader among many hosts: the lease, the guard that keeps it, and what the leader runs."""
