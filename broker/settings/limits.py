"""What is taken, granted and held."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from broker.settings.base import Bytes, Count, Number, Seconds, Section

KIB = 1024
MIB = 1024 * KIB


class Limits(Section):
    """What is taken, granted and held.

    A key that begins with ``tenant_`` is what one tenant may have of what the key without it allows all together. No
    tenant may have more than is free, so that there is always room for one that has nothing yet; only a bound of its
    own above half of all lets it.

    Attributes:
        collect_seconds: How long a request collects when it does not say.
        max_collect_seconds: The most that it may ask for.
        answer_margin_seconds: What is kept of the caller's own deadline to answer in.
        max_message_bytes: Of one message received.
        max_frame_bytes: Of one encoded frame; a larger one is dropped alone.
        max_batch_frames: Frames in one batch.
        max_lanes: Lanes that a request may open; the end of its answer names each of them in one message.
        lane_frames: Frames granted to a lane; a push may hold as many.
        lane_tokens: Tokens of content granted to a lane, at most, and those that a push may hold; a lane is granted
            four times the request's budget where that is less, or its part of it where the request splits it.
        lane_bytes: Bytes of encoded frames that are taken in a lane; what comes beyond ends it ``FAILED``.
        max_tokens: The largest budget that a request may name.
        max_frames: The most frames that a request may have placed.
        max_inline_frames: Frames of all inline lanes of a request.
        push_hold_seconds: How long an early push waits for its request, and how long one may take to come in.
        push_hold_bytes: Bytes of all early pushes, those that come in included.
        tenant_push_hold_bytes: Of one tenant's.
        held_bytes: Bytes of requests, and of the frames gathered for them, that are held until they are answered; left
            out: a sixteenth of ``memory_bytes``, since what is made of a byte takes several.
        tenant_held_bytes: Of one tenant's.
        requests: Requests that are answered at once.
        tenant_requests: Of one tenant's.
        tenant_calls_per_second: Calls of any method that a tenant may begin in a second, refused ones not counted.
        provider_calls_per_second: Of these, calls of one provider's credential: none takes all of its tenant's.
        tenant_refusals_per_second: Calls refused for want of anything that a tenant may have here, or for want of a
            credential, which are answered at once; beyond it each waits for its turn, at most a second.
        calls: Calls open at once that are no sessions.
        tenant_calls: Of one tenant's.
        health_calls: Health calls open at once, which need no credential and take nothing of what tenants may have.
        host_health_calls: Of one host's, and of one method.
        sessions: Sessions of attached providers at once.
        tenant_sessions: Of one tenant's.
        provider_sessions: Of one provider's credential, where it has one.
        connection_sessions: Of one connection's.
        connection_streams: Calls of any kind, sessions too, that one connection may have open at once; a client's
            library keeps further ones waiting.
        memory_bytes: What the process may have; left out: what its control group allows, or else all that there is.
        shed_at: The part of it from which on new requests and pushes are refused; those that run have the rest.
        rank_seconds: What a ranking plugin gets for one request; round robin stands in for one that is late.
        rerank_seconds: What a reranker gets for one request where it has no ``timeout_seconds`` of its own.
    """

    collect_seconds: Seconds = 2.0
    max_collect_seconds: Seconds = 300.0
    answer_margin_seconds: Seconds = 0.1
    max_message_bytes: Annotated[Count, Field(ge=64 * KIB, le=4 * MIB)] = MIB
    # A placed frame travels with its rendered block in one message of at most 512 KiB.
    max_frame_bytes: Annotated[Count, Field(le=192 * KIB)] = 192 * KIB
    max_batch_frames: Annotated[Count, Field(le=100_000)] = 4096
    max_lanes: Annotated[Count, Field(le=1000)] = 1000
    lane_frames: Annotated[Count, Field(le=100_000)] = 256
    lane_tokens: Count = 200_000
    lane_bytes: Count = 8 * MIB
    max_tokens: Count = 1_000_000
    max_frames: Annotated[Count, Field(le=100_000)] = 1000
    max_inline_frames: Annotated[Count, Field(le=100_000)] = 10_000
    push_hold_seconds: Seconds = 30.0
    push_hold_bytes: Count = 32 * MIB
    tenant_push_hold_bytes: Count = 16 * MIB
    held_bytes: Annotated[Bytes | None, Field(examples=[256 * MIB])] = None
    tenant_held_bytes: Bytes = 256 * MIB
    requests: Count = 512
    tenant_requests: Count = 64
    tenant_calls_per_second: Annotated[Count, Field(le=1_000_000)] = 1000
    provider_calls_per_second: Annotated[Count, Field(le=1_000_000)] = 500
    tenant_refusals_per_second: Annotated[Count, Field(le=1_000_000)] = 200
    calls: Count = 8192
    tenant_calls: Count = 2048
    health_calls: Count = 1024
    host_health_calls: Count = 256
    sessions: Count = 20_000
    tenant_sessions: Count = 10_000
    provider_sessions: Count = 1000
    connection_sessions: Count = 100
    connection_streams: Count = 100
    # Less than this the process has before anyone calls, and every request would be refused.
    memory_bytes: Annotated[Annotated[Bytes, Field(ge=64 * MIB)] | None, Field(examples=[4 * 1024 * MIB])] = None
    shed_at: Annotated[Number, Field(gt=0, le=1, allow_inf_nan=False)] = 0.9
    rank_seconds: Seconds = 1.0
    rerank_seconds: Seconds = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for low, high in (
            ("collect_seconds", "max_collect_seconds"),
            ("max_frame_bytes", "max_message_bytes"),
            # A batch of more frames than this is then more than any lane was granted, and falls under that rule.
            ("lane_frames", "max_batch_frames"),
        ):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(f"{low} ({getattr(self, low)}) is above {high} ({getattr(self, high)})")
        return self
