"""The composition itself: pure values in, pure values out. No grpc, no asyncio, no clock, no randomness, no I/O.

Values are frozen msgspec structs: a request makes several for each frame offered, and a struct takes a tenth of the
time that a frozen dataclass takes. ``gc=False`` keeps them from the garbage collector, which has nothing to find there:
a value is made of values that were there before it, so that none leads back to itself. A type that may hold what others
bring, such as a plugin, goes without.
"""
