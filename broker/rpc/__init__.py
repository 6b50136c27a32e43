"""The daemon's gRPC surface: services, status mapping, streams, server."""
