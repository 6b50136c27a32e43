"""Lists of providers and of policies come back from the wire as they were."""

from __future__ import annotations

from contextbroker.v1 import context_service_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from broker.core.strategies import Parameter
from broker.wire.listings import (
    ListedInstance,
    ListedProvider,
    ListedStrategy,
    providers_message,
    read_providers,
    read_strategies,
    strategies_message,
)
from tests.wire import values

moments = st.none() | st.integers(0, 4 * 10**15).map(lambda micros: micros / 10**6)
instances = st.builds(
    ListedInstance,
    instance=values.texts,
    session=values.texts,
    version=values.texts,
    in_flight=values.uint32,
    max_in_flight=values.uint32,
    last_seen=moments,
)
providers = st.builds(
    ListedProvider,
    provider=values.names,
    instances=values.tuples(instances),
    kinds=values.tuples(values.kinds),
    scale=st.none() | values.scales(),
    quarantined_seconds=values.uint32,
    circuit_open_seconds=values.uint32,
    last_seen=moments,
)
strategies = st.builds(
    ListedStrategy,
    name=values.texts,
    description=values.texts,
    compares_raw_scores=st.booleans(),
    parameters=values.tuples(st.builds(Parameter, values.texts, values.texts, values.texts, values.texts)),
    default=st.booleans(),
    allowed=st.booleans(),
    default_params=st.dictionaries(values.texts, values.json_values, max_size=3),
)


@given(values.tuples(providers))
def test_providers_come_back_as_they_were(listed: tuple[ListedProvider, ...]):
    data = providers_message(listed).SerializeToString()
    assert read_providers(pb.ListProvidersResponse.FromString(data)) == listed


@given(values.tuples(strategies))
def test_policies_come_back_as_they_were(listed: tuple[ListedStrategy, ...]):
    data = strategies_message(listed).SerializeToString()
    assert read_strategies(pb.ListStrategiesResponse.FromString(data)) == listed
