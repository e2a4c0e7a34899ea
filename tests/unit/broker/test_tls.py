"""Settings of TLS: what goes together, what is wrong with a file, what is said of a refusal."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from broker.local.process_list import ProcessList
from broker.settings import Settings, SettingsError, load
from broker.storage.tls import api_context, explain_tls_error, redis_context, redis_tls, server_options
from tests.integration.certificates import Authority, Pair


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "ours")


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.pair("localhost")


def test_redis_is_verified_and_only_over_tls(authority: Authority, pair: Pair) -> None:
    told = Settings(redis_ca=authority.file, redis_cert=pair.cert, redis_key=pair.key)
    assert redis_tls("redis://h/0", told) == redis_tls("unix:///x.sock", told) == {}
    options = redis_tls("rediss://h/0", told)
    assert options["ssl_cert_reqs"] is ssl.CERT_REQUIRED
    assert options["ssl_check_hostname"] is True
    assert options["ssl_min_version"] is ssl.TLSVersion.TLSv1_2
    assert options["ssl_ca_certs"] == str(authority.file)
    assert (options["ssl_certfile"], options["ssl_keyfile"]) == (str(pair.cert), str(pair.key))


def test_no_address_turns_verifying_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTFED_REDIS_URL", "rediss://u:s3cret@h/0?ssl_cert_reqs=none")
    with pytest.raises(SettingsError, match="SPOTFED_REDIS_URL: set TLS by SPOTFED_REDIS_CA") as refused:
        load()
    assert "s3cret" not in str(refused.value)


def test_clients_verify_host_and_authority(authority: Authority) -> None:
    for context in (api_context(Settings(ca=authority.file)), redis_context(Settings())):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_the_api_speaks_plain_http_unless_it_has_a_certificate(authority: Authority, pair: Pair) -> None:
    assert server_options(Settings()) == {}
    told = Settings(tls_cert=pair.cert, tls_key=pair.key, tls_client_ca=authority.file)
    assert server_options(told) == {
        "ssl_certfile": str(pair.cert),
        "ssl_keyfile": str(pair.key),
        "ssl_ca_certs": str(authority.file),
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
    }


def test_what_is_wrong_with_a_file_is_said_with_the_name_of_its_setting(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    other = authority.pair("elsewhere")
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    wrong = {
        "SPOTFED_TLS_KEY: needed beside SPOTFED_TLS_CERT": Settings(tls_cert=pair.cert),
        "SPOTFED_TLS_CERT: needed beside SPOTFED_TLS_KEY": Settings(tls_key=pair.key),
        "SPOTFED_TLS_CLIENT_CA: needs SPOTFED_TLS_CERT": Settings(tls_client_ca=authority.file),
        "SPOTFED_TLS_CERT: cannot read": Settings(tls_cert=tmp_path / "nowhere", tls_key=pair.key),
        "SPOTFED_TLS_CERT, SPOTFED_TLS_KEY: not a certificate and its key": Settings(
            tls_cert=pair.cert, tls_key=other.key
        ),
    }
    for words, told in wrong.items():
        with pytest.raises(SettingsError, match=words):
            server_options(told)
    with pytest.raises(SettingsError, match=r"SPOTFED_CA: .* holds no certificates"):
        api_context(Settings(ca=empty))
    with pytest.raises(SettingsError, match="SPOTFED_REDIS_CA: cannot read"):
        redis_tls("rediss://h/0", Settings(redis_ca=tmp_path / "nowhere"))
    with pytest.raises(SettingsError, match="SPOTFED_REDIS_KEY: needed beside SPOTFED_REDIS_CERT"):
        redis_context(Settings(redis_cert=pair.cert))


def test_only_refusals_of_tls_are_called_that() -> None:
    assert explain_tls_error(ConnectionRefusedError("no"), "here", "ca") is None
    outer = ConnectionError("outer")
    strange = ssl.SSLError(1, "[SSL: SOMETHING] something")
    strange.reason = "SOMETHING"
    outer.__cause__ = strange
    assert explain_tls_error(outer, "here", "ca") is None
    wrong = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    wrong.reason = "WRONG_VERSION_NUMBER"
    outer.__cause__ = wrong
    assert "it does not speak TLS" in (explain_tls_error(outer, "here", "ca") or "")


def test_a_federation_on_this_machine_speaks_tls_only_where_its_address_says_so() -> None:
    plain, secured = ProcessList(Path("f.toml"), ("a",)), ProcessList(Path("f.toml"), ("a",), tls=True)
    assert plain.url.startswith("http://")
    assert secured.url.startswith("https://")
    # An empty variable counts as unset: what this process was told of certificates is not handed on.
    assert plain.environment["SPOTFED_TLS_CERT"] == ""
    assert "SPOTFED_TLS_CERT" not in secured.environment
