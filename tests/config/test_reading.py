"""Flags stand above the environment, that above the file, that above the defaults; what is wrong is named."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.config import CONFIG_VARIABLE, Config, load
from broker.core.scores import Direction, ScoreScale
from broker.core.strategies import (
    PerProviderQuota,
    PluginStrategy,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    Strategy,
    TrustWeighted,
)
from broker.errors import ConfigError
from broker.settings import PREFIX, Limits, Server

File = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith(PREFIX):
            monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> File:
    def write(text: str) -> Path:
        path = tmp_path / "broker.toml"
        path.write_text(text)
        return path

    return write


def wrong(flags: dict | None = None, *, file: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(flags, file=file)
    return str(caught.value)


# --- where values come from


def test_defaults_are_those_that_are_documented() -> None:
    config = load()
    assert config.server == Server()
    assert config.server.listen == "127.0.0.1:7433"
    limits = config.limits
    assert (limits.collect_seconds, limits.max_message_bytes, limits.max_frame_bytes) == (2.0, 2**20, 192 * 1024)
    assert (limits.lane_frames, limits.lane_tokens, limits.max_batch_frames) == (256, 200_000, 4096)
    assert (limits.max_tokens, limits.max_frames, limits.max_inline_frames) == (1_000_000, 1000, 10_000)
    assert (limits.push_hold_seconds, limits.push_hold_bytes) == (30.0, 32 * 2**20)


def test_each_source_stands_above_the_next(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file("[limits]\nmax_tokens = 1\nmax_frames = 1\nlane_frames = 1\n[log]\nlevel = 'debug'\n")
    monkeypatch.setenv("CONTEXT_BROKER_LIMITS__MAX_TOKENS", "2")
    monkeypatch.setenv("CONTEXT_BROKER_LIMITS__MAX_FRAMES", "2")
    config = load({"limits": {"max_tokens": 3}, "server": {}}, file=path)
    assert (config.limits.max_tokens, config.limits.max_frames, config.limits.lane_frames) == (3, 2, 1)
    assert config.limits.lane_tokens == 200_000
    assert config.log.level == "debug"


def test_the_environment_may_name_the_file_and_a_flag_another(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    named = file("[limits]\nmax_tokens = 5\n")
    monkeypatch.setenv(CONFIG_VARIABLE, str(named))
    assert load().limits.max_tokens == 5
    other = named.with_name("other.toml")
    other.write_text("[limits]\nmax_frames = 6\n")
    config = load(file=other)
    assert (config.limits.max_tokens, config.limits.max_frames) == (1_000_000, 6)


@pytest.mark.parametrize("text", ["b,a", " b , a ", '["b", "a"]'])
def test_a_list_in_the_environment_is_json_or_parted_by_commas(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_BROKER_RANKING__LANE_ORDER", text)
    assert load().ranking.lane_order == ("b", "a")


def test_a_known_provider_has_a_scale(file: File) -> None:
    config = load(
        file=file(
            "[providers.bare]\n[providers.tickets.scale]\nid='bm25'\nmin=-inf\nmax=0\ndirection='lower_is_better'\n"
        )
    )
    scale = config.providers["tickets"].scale
    assert scale is not None
    assert scale.value() == ScoreScale("bm25", -math.inf, 0, Direction.LOWER_IS_BETTER)
    assert config.providers["bare"].scale is None


@pytest.mark.parametrize(
    "variable",
    # The command line's own, and those that Kubernetes makes for a service called context-broker.
    [
        "ADDRESS",
        "ADMIN_ADDRESS",
        "TLS_CA",
        "TOKEN_FILE",
        "SERVICE_HOST",
        "SERVICE_PORT",
        "PORT",
        "PORT_7433_TCP_ADDR",
        "SERVICE_PORT_GRPC",
    ],
)
def test_variables_that_are_not_of_the_configuration_are_left_alone(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"CONTEXT_BROKER_{variable}", "127.0.0.1:1")
    assert load().model_dump() == Config().model_dump()


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().limits.max_tokens = 5


# --- what is wrong


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("[server]\nlisen = 'x'\n", "server.lisen", "server.listen"),
        ("[sever]\nlisten = 'x'\n", "sever", "server"),
        ("[limits]\nmax_token = 5\n", "limits.max_token", "limits.max_tokens"),
        ("[providers.a]\nscal = 5\n", "providers.a.scal", "providers.a.scale"),
        ("[providers.a.scale]\nidd = 'x'\n", "providers.a.scale.idd", "providers.a.scale.id"),
        ("[rerankers.a]\nkind = 'remote'\nadress = 'h:1'\n", "rerankers.a.adress", "rerankers.a.address"),
        ("listen = 'x'\n", "listen", ""),
    ],
)
def test_an_unknown_key_names_the_nearest_right_one(file: File, text: str, key: str, nearest: str) -> None:
    path = file(text)
    message = wrong(file=path)
    assert f"no key '{key}'" in message
    assert f"the nearest is '{nearest}'" in message or not nearest
    assert str(path) in message


def test_an_unknown_key_far_from_all_lists_them(file: File) -> None:
    assert "there are format, level" in wrong(file=file("[log]\nzzzzzz = 1\n"))


@pytest.mark.parametrize(
    ("variable", "named", "nearest"),
    [
        ("CONTEXT_BROKER_SERVER__LISEN", "server.lisen", "server.listen"),
        ("CONTEXT_BROKER_SEVER__LISTEN", "sever", "server"),
    ],
)
def test_an_unknown_variable_names_the_nearest_right_key(
    variable: str, named: str, nearest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "x")
    message = wrong()
    assert variable in message
    assert f"'{named}'" in message
    assert f"the nearest is '{nearest}'" in message


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("CONTEXT_BROKER_LIMITS_MAX_TOKENS", "CONTEXT_BROKER_LIMITS__MAX_TOKENS"),
        ("CONTEXT_BROKER_LISTEN", "CONTEXT_BROKER_SERVER__LISTEN"),
        ("context_broker_limits_max_token", "CONTEXT_BROKER_LIMITS__MAX_TOKEN"),
    ],
)
def test_a_misspelt_variable_is_not_passed_over(variable: str, meant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "5")
    message = wrong()
    assert variable in message
    assert f"did you mean {meant}?" in message


WRONG = [
    ("limits", "max_tokens", "'many'", "valid integer"),
    ("limits", "max_tokens", "1.5", "valid integer"),
    ("limits", "max_tokens", "true", "number"),
    ("limits", "max_tokens", "0", "greater than or equal to 1"),
    ("limits", "max_tokens", "-1", "greater than or equal to 1"),
    ("limits", "max_tokens", "nan", "finite"),
    ("limits", "max_tokens", "1e400", "finite"),
    ("limits", "collect_seconds", "nan", "greater than 0"),
    ("limits", "collect_seconds", "inf", "less than or equal"),
    ("limits", "collect_seconds", "1e400", "less than or equal"),
    ("limits", "collect_seconds", "0", "greater than 0"),
    ("limits", "collect_seconds", "-1", "greater than 0"),
    ("limits", "max_frame_bytes", "200000", "less than or equal"),
    ("server", "listen", "5", "string"),
    ("server", "listen", "'7433'", "host:port"),
    ("server", "listen", "'127.0.0.1:'", "host:port"),
    ("server", "listen", "'127.0.0.1:99999'", "host:port"),
    ("server", "listen", "':7433'", "host:port"),
    ("server", "listen", "'::1:7433'", "host:port"),
    ("server", "insecure", "'maybe'", "boolean"),
    ("log", "level", "'loud'", "'debug', 'info'"),
    ("ranking", "lane_order", "['a', 'B']", "'B' is not a provider name"),
    ("ranking", "lane_order", "['a', 'a']", "twice"),
    ("ranking", "forbidden_strategies", "['score']", "no strategy is called 'score'"),
    ("ranking", "forbidden_strategies", "['round_robin']", "cannot be forbidden"),
]


@pytest.mark.parametrize(("section", "key", "value", "expected"), WRONG)
def test_a_wrong_value_names_its_key_and_what_was_expected(
    file: File, section: str, key: str, value: str, expected: str
) -> None:
    message = wrong(file=file(f"[{section}]\n{key} = {value}\n"))
    assert f"{section}.{key}: " in message
    assert expected in message
    assert not ("; got " in message and "(got " in message), "the value is said once"


def test_everything_that_is_wrong_is_said_at_once_and_where_it_came_from(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file("[limits]\nmax_tokens = -1\n")
    monkeypatch.setenv("CONTEXT_BROKER_LIMITS__MAX_FRAMES", "x")
    message = wrong({"log": {"level": "loud"}}, file=path)
    assert f"configuration file {path}: limits.max_tokens" in message
    assert "environment variable CONTEXT_BROKER_LIMITS__MAX_FRAMES: limits.max_frames" in message
    assert "a flag: log.level" in message
    assert len(message.splitlines()) == 3


def test_what_is_wrong_in_one_place_is_told_a_line_each_under_its_name(file: File) -> None:
    path = file("[limits]\nmax_tokens = -1\nmax_frames = 'x'\nmax_lane = 3\n")
    place, *lines = wrong(file=path).splitlines()
    assert place == f"configuration file {path}:"
    assert sorted(line.split()[0] for line in lines) == ["limits.max_frames:", "limits.max_tokens:", "there"]
    assert all(line.startswith("  ") and str(path) not in line for line in lines)


@pytest.mark.parametrize(
    ("text", "twice"),
    [
        ("[limits]\nmax_tokens = 1\nmax_tokens = 2\n", "limits.max_tokens"),
        ("[log]\n[limits]\nmax_frames = 1\n\nmax_frames = 1\n[server]\n", "limits.max_frames"),
        ("[limits]\n[log]\n[limits]\n", "limits"),
    ],
)
def test_a_key_that_stands_twice_is_named(file: File, text: str, twice: str) -> None:
    message = wrong(file=file(text))
    assert "not TOML" in message
    assert twice in message


def test_a_file_that_cannot_be_read_is_named(file: File, tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert str(missing) in wrong(file=missing)
    assert str(tmp_path) in wrong(file=tmp_path)
    assert "not TOML" in wrong(file=file("[limits\n"))
    assert "nested too deeply" in wrong(file=file("a = " + "[" * 5000 + "]" * 5000))
    file("").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in wrong(file=tmp_path / "broker.toml")


@pytest.mark.parametrize("value", ["debug", "{", "[1]"])
def test_a_section_in_the_environment_must_be_one(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_BROKER_LOG", value)
    assert "log" in wrong()


@pytest.mark.parametrize("listen", ["0.0.0.0:7433", "[::]:7433", "192.0.2.1:7433", "broker.example:7433"])
def test_an_address_that_others_can_reach_needs_tls_or_a_word(listen: str, tmp_path: Path) -> None:
    assert "other machines can reach" in wrong({"server": {"listen": listen}})
    said = {"auth": {"policy": "anonymous"}}
    assert load({"server": {"listen": listen, "insecure": True}, **said}).server.insecure
    files = {"tls_cert": tmp_path / "cert", "tls_key": tmp_path / "key"}
    assert load({"server": {"listen": listen, **files}, **said}).server.tls_key == files["tls_key"]


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.1.2.3:65535", "[::1]:1", "localhost:7433"])
def test_an_address_of_this_machine_alone_needs_neither(listen: str) -> None:
    assert load({"server": {"listen": listen}}).server.loopback


def test_tls_is_whole_and_not_called_insecure(tmp_path: Path) -> None:
    assert "go together" in wrong({"server": {"tls_cert": tmp_path}})
    assert "go together" in wrong({"server": {"tls_key": tmp_path}})
    assert "contradict" in wrong({"server": {"tls_cert": tmp_path, "tls_key": tmp_path, "insecure": True}})


@pytest.mark.parametrize(
    ("limits", "low", "high"),
    [
        ({"collect_seconds": 9, "max_collect_seconds": 8}, "collect_seconds", "max_collect_seconds"),
        ({"lane_frames": 5000}, "lane_frames", "max_batch_frames"),
        ({"max_message_bytes": 65536}, "max_frame_bytes", "max_message_bytes"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(limits: dict, low: str, high: str) -> None:
    message = wrong({"limits": limits})
    assert low in message
    assert high in message


@pytest.mark.parametrize("name", ["all", "default", "Upper", "a*"])
def test_no_provider_of_a_forbidden_name_can_be_configured(file: File, name: str) -> None:
    assert name in wrong(file=file(f'[providers."{name}"]\n'))


@pytest.mark.parametrize("scale", ["min = 2\nmax = 1", "min = nan", "id = ''", "direction = 'up'", "min = true"])
def test_a_scale_that_is_none_is_refused(file: File, scale: str) -> None:
    assert "providers.a.scale" in wrong(file=file(f"[providers.a.scale]\n{scale}\n"))


def test_every_limit_has_a_default_within_its_own_bounds() -> None:
    assert Limits(**Limits().model_dump()) == Limits()


# --- ranking


def ranking(file: File, text: str) -> str:
    return wrong(file=file(f"[ranking]\n{text}\n"))


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("", RoundRobin()),
        ("default_strategy = 'per_provider_quota'", PerProviderQuota(3)),
        ("default_strategy = { name = 'reciprocal_rank_fusion', k = 20 }", ReciprocalRankFusion(20)),
        ("default_strategy = { name = 'trust_weighted', default_weight = 2 }", TrustWeighted({}, 2)),
        ("default_strategy = 'score_descending'", ScoreDescending()),
        ("plugins = ['mine']\ndefault_strategy = { name = 'mine', depth = 3 }", PluginStrategy("mine", {"depth": 3})),
    ],
)
def test_the_default_strategy_is_a_name_or_a_table(file: File, text: str, strategy: Strategy) -> None:
    assert load(file=file(f"[ranking]\n{text}\n")).ranking.strategy == strategy


@pytest.mark.parametrize("value", ["reciprocal_rank_fusion", '{"name": "reciprocal_rank_fusion", "k": 60}'])
def test_the_environment_may_name_the_default_strategy(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_BROKER_RANKING__DEFAULT_STRATEGY", value)
    assert load().ranking.strategy == ReciprocalRankFusion(60)


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("default_strategy = 'rrf'", "default_strategy", "no strategy is called 'rrf'; there are per_provider_quota"),
        ("default_strategy = 'mine'", "default_strategy", "a plugin must stand in ranking.plugins"),
        ("default_strategy = 5", "default_strategy", "expected a name, or a table"),
        ("default_strategy = { k = 5 }", "default_strategy", "no strategy is called None"),
        ("default_strategy = 'precomputed'", "default_strategy", "cannot be the default"),
        ("default_strategy = { name = 'round_robin', k = 5 }", "default_strategy", "takes no 'k'; it takes nothing"),
        ("default_strategy = { name = 'per_provider_quota', k = 0 }", "default_strategy", "integer from 1 to 10,000"),
        ("default_strategy = { name = 'per_provider_quota', k = '3' }", "default_strategy", "expected integer"),
        ("default_strategy = { name = 'per_provider_quota', k = true }", "default_strategy", "expected integer"),
        ("default_strategy = { name = 'trust_weighted', min_score = 0.5 }", "default_strategy", "takes no 'min_score'"),
        ("default_strategy = { name = 'trust_weighted', weights = { a = nan } }", "default_strategy", "finite"),
        ("default_strategy = { name = 'trust_weighted', weights = [1] }", "default_strategy", "expected provider"),
        ("default_strategy = 'per_provider_quota'\nforbidden_strategies = ['per_provider_quota']",
         "forbidden_strategies", "cannot be forbidden"),
        ("plugins = ['mine']\nforbidden_strategies = ['mine']", "forbidden_strategies", "leave it out of plugins"),
        ("plugins = ['mine', 'mine']", "plugins", "twice"),
        ("rerankers = ['x', 'x']", "rerankers", "twice"),
        ("shared_scales = [{ id = 'x', providers = ['a'] }]", "shared_scales.0.providers", "two or more"),
        ("shared_scales = [{ id = 'x', providers = ['a', 'a'] }]", "shared_scales.0.providers", "each once"),
        ("shared_scales = [{ id = 'x', providers = ['a', '*'] }]", "shared_scales.0.providers", "not a provider name"),
        ("shared_scales = [{ id = '', providers = ['a', 'b'] }]", "shared_scales.0.id", "pattern"),
        ("shared_scales = [{ id = 'x', providers = ['a', 'b'] }, { id = 'y', providers = ['b', 'c'] }]",
         "shared_scales", "b: a provider has one scale"),
    ],
)  # fmt: skip
def test_a_wrong_word_about_ranking_names_its_key(file: File, text: str, key: str, says: str) -> None:
    message = ranking(file, text)
    assert f"ranking.{key}: " in message
    assert says in message


def test_a_wrong_key_of_a_shared_scale_names_the_nearest(file: File) -> None:
    message = ranking(file, "shared_scales = [{ idd = 'x', providers = ['a', 'b'] }]")
    assert "ranking.shared_scales.0.idd" in message
    assert "the nearest is 'ranking.shared_scales.0.id'" in message


def test_round_robin_may_be_forbidden_where_it_is_not_the_default(file: File) -> None:
    text = "default_strategy = 'per_provider_quota'\nforbidden_strategies = ['round_robin', 'score_descending']"
    assert load(file=file(f"[ranking]\n{text}\n")).ranking.forbidden_strategies == ("round_robin", "score_descending")


WEIGHED = "default_strategy = { name = 'trust_weighted', weights = { files = 2.0 } }"


@pytest.mark.parametrize(
    "more",
    [
        "[providers.files]",
        "lane_order = ['files']",
        "shared_scales = [{ id = 'x', providers = ['files', 'b'] }]",
    ],
)
def test_the_default_weighs_providers_that_are_configured(file: File, more: str) -> None:
    assert "weighs files, which is not configured; add [providers.files]" in ranking(file, WEIGHED)
    assert load(file=file(f"[ranking]\n{WEIGHED}\n{more}\n")).ranking.strategy == TrustWeighted({"files": 2.0})


@pytest.mark.parametrize(
    "providers",
    ["[providers.a.scale]\nid = 'other'", "[providers.a.scale]\nid = 'x'\n[providers.b.scale]\nid = 'x'\nmax = 2.0"],
)
def test_what_is_shared_is_configured_alike(file: File, providers: str) -> None:
    shared = "[ranking]\nshared_scales = [{ id = 'x', providers = ['a', 'b'] }]\n"
    assert "shares with others by ranking.shared_scales ('x')" in wrong(file=file(f"{shared}{providers}\n"))
    assert load(file=file(f"{shared}[providers.a.scale]\nid = 'x'\n[providers.b]\n")).ranking.shared_scales


@pytest.mark.parametrize(
    ("table", "key", "says"),
    [
        ("[tokenizers.x]\nkind = 'tiktoken'\nfile = 'f'", "tokenizers.x", "needs either encoding or pattern"),
        (
            "[tokenizers.x]\nkind = 'tiktoken'\nfile = 'f'\nencoding = 'cl100k_base'\npattern = '.'",
            "tokenizers.x",
            "either",
        ),
        ("[tokenizers.x]\nkind = 'tiktoken'\nfile = 'f'\nencoding = 'gpt'", "tokenizers.x.encoding", "o200k_base"),
        ("[tokenizers.x]\nkind = 'huggingface'\nfile = 'f'\npattern = '.'", "tokenizers.x", "pattern goes with"),
        ("[tokenizers.x]\nkind = 'sentencepiece'\nfile = 'f'", "tokenizers.x.kind", "huggingface"),
        ("[tokenizers.x]\nkind = 'huggingface'", "tokenizers.x.file", "required"),
        ("[tokenizers.x]\nkind = 'huggingface'\nfiel = 'f'", "tokenizers.x.fiel", "the nearest is 'tokenizers.x.file'"),
        ("[tokenizers.'bytes/4']\nkind = 'huggingface'\nfile = 'f'", "tokenizers", "cannot be a name"),
        ("[render]\ntokenizer = 'o200k'", "render", "tokenizer is 'o200k', and there are bytes/4"),
    ],
)
def test_a_wrong_word_about_tokenizers_names_its_key(file: File, table: str, key: str, says: str) -> None:
    message = wrong(file=file(f"{table}\n"))
    assert key in message
    assert says in message


def test_the_default_tokenizer_is_one_that_is_configured(file: File) -> None:
    text = "[tokenizers.words]\nkind = 'huggingface'\nfile = 'tokenizer.json'\n[render]\ntokenizer = 'words'\n"
    config = load(file=file(text))
    assert config.render.tokenizer == "words"
    assert config.tokenizers["words"].file == Path("tokenizer.json")


# --- the table of providers


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("credentials = ['password']", "'password' is no kind of credential; there are mtls, tokens, jwt"),
        ("credentials = ['mtls']", "docs needs the credential 'mtls', which auth.policy does not name"),
        ("max_frames = 0", "providers.docs.max_frames"),
    ],
)
def test_what_a_provider_cannot_be_given_is_told(file: File, text: str, told: str) -> None:
    assert told in wrong(file=file(f"[providers.docs]\n{text}\n"))
