"""Limits: how much of the broker one tenant, one connection and all together may use. Pure: clocks are passed in."""
