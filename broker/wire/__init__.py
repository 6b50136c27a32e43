"""The codec: protobuf messages to plain values and back, the same for daemon and client. No grpc, no I/O."""
