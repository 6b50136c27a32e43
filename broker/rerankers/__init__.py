"""Rerankers that run in the daemon's process; :mod:`broker.rpc.remote_reranker` asks those that run elsewhere."""
