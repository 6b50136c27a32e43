"""A twin reads and writes the same wire as the public message, and no one who reflects on the contract sees it."""

from __future__ import annotations

import pytest
from contextbroker.v1 import context_service_pb2, frame_pb2, provider_service_pb2
from google.protobuf import descriptor_pool
from hypothesis import given
from hypothesis import strategies as st

from broker.wire import schema
from broker.wire.frames import frame_message
from tests.wire import values

PUBLIC = {
    "FrameBatch": provider_service_pb2.FrameBatch,
    "PushBatch": provider_service_pb2.PushBatch,
    "AttachRequest": provider_service_pb2.AttachRequest,
    "PushRequest": provider_service_pb2.PushRequest,
    "InlineLane": context_service_pb2.InlineLane,
    "ComposeRequest": context_service_pb2.ComposeRequest,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_field_of_a_twin_stands_at_its_public_number(name: str):
    public = PUBLIC[name].DESCRIPTOR
    for field in getattr(schema, name).DESCRIPTOR.fields:
        assert public.fields_by_number[field.number].name == field.name


def test_a_loose_frame_has_the_public_numbers():
    for field in schema._LooseFrame.DESCRIPTOR.fields:
        assert frame_pb2.Frame.DESCRIPTOR.fields_by_number[field.number].name == field.name
    assert schema.loose_frame("cé") == frame_pb2.Frame(content="cé").SerializeToString()


@given(values.texts, st.lists(values.frames, max_size=4))
def test_batches_of_both_schemas_are_the_same_bytes(query_id, frames):
    messages = [frame_message(frame) for frame in frames]
    encoded = [message.SerializeToString() for message in messages]
    public = provider_service_pb2.FrameBatch(query_id=query_id, frames=messages)
    twin = schema.FrameBatch(query_id=query_id, frames=encoded)
    assert twin.SerializeToString() == public.SerializeToString()
    assert list(schema.FrameBatch.FromString(public.SerializeToString()).frames) == encoded
    assert provider_service_pb2.FrameBatch.FromString(twin.SerializeToString()) == public

    public = provider_service_pb2.PushBatch(frames=messages)
    assert schema.PushBatch(frames=encoded).SerializeToString() == public.SerializeToString()

    wrapped = provider_service_pb2.AttachRequest(
        frame_batch=provider_service_pb2.FrameBatch(query_id=query_id, frames=messages)
    )
    assert schema.AttachRequest(frame_batch=[twin.SerializeToString()]).SerializeToString() == (
        wrapped.SerializeToString()
    )


def test_the_twins_stay_out_of_the_public_pool():
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindFileByName("contextbroker/twin.proto")
