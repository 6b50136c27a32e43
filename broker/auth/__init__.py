"""Who calls, and what that caller may do: no gRPC, no I/O but reading the operator's files."""
