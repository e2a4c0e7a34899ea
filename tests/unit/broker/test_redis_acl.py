"""The table of rights, the lines of an ACL file, and ``spotfed acl generate``."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import redis

import broker
from broker import cli
from broker.cli.federations import UP
from broker.identity.redis_acl import (
    CHANNELS,
    COMMANDS,
    RIGHTS,
    User,
    hash_password,
    list_users,
    login_url,
    make_key_pattern,
    read_hashes,
    render_acl_file,
    render_user,
)
from broker.settings import settings
from broker.storage.connections import celery_url
from broker.storage.keys import RedisKeys

KEYS = RedisKeys("f:")
#: Commands that let a user out of its rights, or block the server.
FORBIDDEN = {
    "acl|setuser", "bgrewriteaof", "client|kill", "config", "config|set", "debug", "failover", "flushall",
    "flushdb", "function", "keys", "migrate", "module", "monitor", "randomkey", "rename", "replicaof",
    "restore", "script", "script|flush", "shutdown", "slaveof", "sort", "swapdb",
}  # fmt: skip


def test_every_name_of_keys_has_a_row_and_every_row_a_name() -> None:
    named = {name for name in dir(RedisKeys) if not name.startswith("_")} - {"prefix"}
    assert named == set(RIGHTS) | set(CHANNELS)
    assert set(RIGHTS).isdisjoint(CHANNELS)


@pytest.mark.parametrize("party", ["broker", "reader", "owner", "agent", "instances", "jobs"])
def test_what_a_table_can_be_made_of_is_kept_from_those_who_ask(party: str) -> None:
    """An owner reads what is its own; of another cloud it has no more than anybody."""
    (user,) = [one for one in list_users(KEYS, ["B"]) if one.party == party]
    line = render_user(KEYS, user, [])
    allowed = re.findall(r"(?:%RW?|%W|)~(\S+?)(?=[ )]|$)", line)
    made_of = [KEYS.history("A", 1), KEYS.batch("A:1:1", 2, 0), KEYS.journal("A"), KEYS.snapshot("A")]
    for key in [*made_of, KEYS.inbox("A")] if party != "broker" else made_of:
        assert not [one for one in allowed if fnmatchcase(key, one)]


def test_a_pattern_matches_the_keys_of_its_cloud_alone() -> None:
    key = {
        "inbox": KEYS.inbox("A"), "history": KEYS.history("A", 7), "advert": KEYS.advert("A"),
        "batch": KEYS.batch("A:7:1:gpu=2", 4, 0), "owner_version": KEYS.owner_version("A"),
        "lease": KEYS.lease("A", "r.1"),
    }  # fmt: skip
    for name, found in key.items():
        assert fnmatchcase(found, make_key_pattern(KEYS, name, "A"))
        for other in ("B", "AA", "A-1", "a"):
            assert not fnmatchcase(found, make_key_pattern(KEYS, name, other))
        assert fnmatchcase(found, make_key_pattern(KEYS, name, None))
    assert fnmatchcase(KEYS.batch("A:7:1", 4, 0), make_key_pattern(KEYS, "batch", "A"))
    assert make_key_pattern(KEYS, "all_events", "A") == "f:events"


@pytest.mark.parametrize("user", list_users(KEYS, ["A", "B"]), ids=lambda user: user.name)
def test_no_line_allows_what_leads_out_of_it(user) -> None:
    line = render_user(KEYS, user, ["0" * 64])
    allowed = set(re.findall(r"\+([\w|]+)", line))
    assert allowed & FORBIDDEN == set()
    assert not any(command.startswith("@") for command in re.findall(r"\+(\S+)", line))
    words = line.replace("(", " ").replace(")", " ").split()
    for word in words:
        found = re.fullmatch(r"(?:%R|%W)?~(.*)|&(.*)", word)
        if found:  # nothing outside the prefix
            assert (found[1] or found[2]).startswith("f:")
    if user.clouds:
        other = {("A",): "B", ("B",): "A"}[user.clouds]
        assert not re.search(rf"[:.]{other}(\W|$)", line)
    assert ("config|get" in allowed) == (user.party == "operator")


def test_an_agent_writes_the_secrets_of_its_own_users_alone_and_reads_whom_they_may_go_to() -> None:
    line = render_user(KEYS, User("f-instances-A", "instances", ("A",)), [])
    (written,) = re.findall(r"\(\+set ([^)]*)\)", line)
    assert written == f"%W~{KEYS.overflow_launch('A', '*')}"
    words = line.replace("(", " ").split()
    assert {f"%R~{KEYS.overflow_launch('*', '*')}", f"%R~{KEYS.catalogue('*')}"} <= set(words)
    assert f"~{KEYS.catalogue('A')}" in words


def test_a_process_of_several_owners_has_what_each_of_them_has_and_no_more() -> None:
    """Both are union: a script's selector too, for Redis must find all keys of a call in one of them."""
    users = {user.name: user for user in list_users(KEYS, "ABC", together=[("A", "B")])}
    lines = {name: render_user(KEYS, user, []) for name, user in users.items() if user.party == "owner"}

    def rights(line: str) -> set[tuple[str, str]]:
        selectors = re.findall(r"\(([^)]*)\)", line)
        root = re.sub(r"\([^)]*\)", "", line).split(" -@all ")[1]
        return {
            (" ".join(command for command in selector.split() if command[0] == "+"), word)
            for selector in [root, *selectors]
            for word in selector.split()
            if word[0] in "~%&"
        }

    both, a, b = (rights(lines[name]) for name in ("f-owner-A", "f-cloud-A", "f-cloud-B"))
    assert both == a | b
    assert not re.search(r"[:.]C(\W|$)", lines["f-owner-A"])
    assert lines["f-owner-A"].count("+evalsha") == 1


def test_every_command_of_a_script_is_allowed() -> None:
    texts = [path.read_text() for path in (Path(broker.__file__).parent / "storage" / "lua").glob("*.lua")]
    called = {name.lower() for text in texts for name in re.findall(r"redis\.p?call\('([A-Z]+)'", text)}
    assert len(called) > 20
    assert called <= set(COMMANDS["owner"].split())
    assert called - {"publish"} <= set(COMMANDS["broker"].split())


def test_the_default_user_is_off() -> None:
    first = render_acl_file(KEYS, {}).splitlines()[0]
    assert first.startswith("user default off")
    assert "nopass" not in first


def test_every_line_is_one_that_the_server_takes(redis_client: redis.Redis) -> None:
    everybody = list_users(KEYS, ["A", "b-2"])
    text = render_acl_file(KEYS, {user: [hash_password(user.name)] for user in everybody})
    for line in text.splitlines()[1:]:
        assert line.startswith("user f-")
        name, rules = line.split()[1], re.findall(r"\([^)]*\)|\S+", line)[2:]
        try:
            assert redis_client.execute_command("ACL", "SETUSER", name, *rules)
            assert redis_client.execute_command("AUTH", name, name)
        finally:
            redis_client.execute_command("AUTH", "default", "")
            redis_client.execute_command("ACL", "DELUSER", name)
    assert read_hashes(text)["f-broker"] == [hash_password("f-broker")]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("rediss://h:7/2", "rediss://u:p%40@h:7/2"),
        ("rediss://old:secret@h:7/2?x=1", "rediss://u:p%40@h:7/2?x=1"),
        ("unix:///run/r.sock?db=3&password=old", "unix:///run/r.sock?db=3&username=u&password=p%40"),
    ],
)
def test_an_address_gets_the_login_of_its_user(address: str, expected: str) -> None:
    assert login_url(address, "u", "p@") == expected
    assert "p%40" in celery_url(expected)
    assert redis.Redis.from_url(expected).get_connection_kwargs()["password"] == "p@"


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def generate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPOTFED_REDIS_URL", raising=False)
    settings.cache_clear()

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["spotfed", "acl", "generate", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    return run


SERVER = ("--redis", "rediss://redis.example:6379/0")


def _password(user: str) -> str:
    line = Path("redis-users", f"spotfed-{user}.env").read_text()
    return shlex.split(line)[0].partition("://")[2].partition("@")[0].partition(":")[2]


def test_passwords_are_in_files_of_their_user_alone_and_stay(generate: Run) -> None:
    code, said = generate(str(UP), "--out", "users.acl", *SERVER)
    assert code == 0
    text = Path("users.acl").read_text()
    forge = _password("cloud-forge")
    assert len(forge) >= 43
    for file in (Path("users.acl"), *Path("redis-users").iterdir()):
        assert file.stat().st_mode & 0o777 == 0o600
    assert Path("redis-users").stat().st_mode & 0o777 == 0o700
    assert forge not in said + text
    assert read_hashes(text)["spotfed-cloud-forge"] == [hash_password(forge)]

    # One cloud more: handed over and deleted or not, the others keep their passwords.
    Path("redis-users/spotfed-cloud-forge.env").unlink()
    more = Path("more.toml")
    more.write_text(UP.read_text() + '\n[[cloud]]\nid = "new"\n')
    code, said = generate(str(more), "--out", "users.acl", *SERVER, "--json")
    assert code == 0
    new = ("spotfed-cloud-new", "spotfed-agent-new", "spotfed-instances-new")
    assert json.loads(said)["new"] == {user: f"redis-users/{user}.env" for user in new}
    again = read_hashes(Path("users.acl").read_text())
    assert again == read_hashes(text) | {user: again[user] for user in new}


def test_a_rotated_password_is_valid_beside_the_old_one_until_the_next_run(generate: Run) -> None:
    generate(str(UP), "--out", "users.acl", *SERVER)
    old = _password("broker")
    code, said = generate(str(UP), "--out", "users.acl", *SERVER, "--rotate", "spotfed-broker")
    assert code == 0
    new = _password("broker")
    assert new != old
    assert {old, new}.isdisjoint(said.split())
    found = read_hashes(Path("users.acl").read_text())
    assert found["spotfed-broker"] == [hash_password(new), hash_password(old)]
    generate(str(UP), "--out", "users.acl", *SERVER)
    assert read_hashes(Path("users.acl").read_text())["spotfed-broker"] == [hash_password(new)]


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("[[cloud]]\nid = 'a*'", SERVER, "cloud.id: an id is letters"),
        ("[[cloud]]\nid = 'a'", (*SERVER, "--together", "a,b"), "--together: no cloud is called 'b'"),
        ("[[cloud]]\nid = 'a'", (*SERVER, "--together", "*", "--together", "a"), "a is in two processes"),
        ("[[cloud]]\nid =", SERVER, "x.toml: cloud.id: "),
        ("cloud = 3", SERVER, "x.toml: needs [[cloud]] tables"),
        ("[[cloud]]\nid = 'a'", (), "--redis: name the server"),
        ("[[cloud]]\nid = 'a'", ("--redis", "http://x"), "--redis: the address must start with"),
        (
            "[[cloud]]\nid = 'a'",
            (*SERVER, "--rotate", "x"),
            "--rotate: there is no user x; the users are spotfed-",
        ),
    ],
)
def test_bad_input_is_named(generate: Run, text: str, arguments: tuple[str, ...], words: str) -> None:
    Path("x.toml").write_text(text)
    code, said = generate("x.toml", "--out", "users.acl", *arguments)
    assert code == 2
    assert words in said
    assert not Path("users.acl").exists()


def test_what_cannot_be_read_or_written_is_said(generate: Run) -> None:
    assert generate("nowhere.toml", "--out", "users.acl", *SERVER)[0] == 2
    code, said = generate(str(UP), "--out", "nowhere/users.acl", *SERVER)
    assert code == 1
    assert "cannot write nowhere/" in said
