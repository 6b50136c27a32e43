"""The composition itself: pure values in, pure values out. No grpc, no asyncio, no clock, no randomness, no I/O."""
