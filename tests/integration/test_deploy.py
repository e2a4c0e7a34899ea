"""The files of deploy/: settings, commands, ports and paths in them are ours, and they are confined."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.settings import PREFIX, Settings
from tests.conftest import PROJECT_ROOT

DEPLOY = PROJECT_ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = [
    one
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for one in yaml.safe_load_all(path.read_text())
]
WORKLOADS = [one for one in MANIFESTS if one["kind"] in {"Deployment", "StatefulSet"}]
OURS = [one for one in WORKLOADS if one["metadata"]["name"] != "redis"]
COMPOSE = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
CLOUDS = {one["id"] for one in tomllib.loads((DEPLOY / "federations/two-hosts.toml").read_text())["cloud"]}
#: What commands of jobs and of fleets are told.
_TOLD = re.compile(rf"{PREFIX}(JOB_\w+|FLEET|LEASE|CLOUD|NODE|CORES|ENDS_AT|END)")
#: Exit statuses after which a person must put something right first (workers.owner, broker.api).
HOPELESS = {
    "broker.api": {"78"},
    "workers.montecarlo": {"78"},
    "workers.owner": {"2", "78"},
    "workers.cloud_agent": {"2", "78"},
}


def name_of(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def files() -> Iterator[Path]:
    """All text files of deploy/, and the page for operators on security."""
    yield PROJECT_ROOT / "SECURITY.md"
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.suffix not in (".png", ".pyc"):
            yield path


# -- everywhere ----------------------------------------------------------------------------------------------


def test_every_variable_is_a_setting() -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    for path in files():
        named = set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", path.read_text()))
        named -= {one for one in named if _TOLD.fullmatch(one)}
        assert named <= known, f"{path.relative_to(PROJECT_ROOT)}: {sorted(named - known)}"


def test_every_module_that_is_started_is_there() -> None:
    planned = {"workers.job_manager", "workers.node_agent"}
    for path in files():
        for module in re.findall(r"-m ((?:broker|workers)(?:\.\w+)*)", path.read_text()):
            found = module in planned or importlib.util.find_spec(module) is not None
            assert found, f"{path.relative_to(PROJECT_ROOT)}: {module}"


def test_the_operators_page_names_files_that_are_there() -> None:
    text = (DEPLOY / "README.md").read_text()
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    assert len(linked) > 5
    named = [one.split("*")[0] for one in re.findall(r"(?<![\w./])deploy/[\w./*-]+", text)]
    for path in [*(DEPLOY / one for one in linked), *(PROJECT_ROOT / one for one in named)]:
        assert path.exists(), path


# -- Redis ---------------------------------------------------------------------------------------------------


def redis_conf(text: str) -> dict[str, str]:
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: value.strip('"') for name, value in lines}


CONFIGURED = {
    "file": redis_conf((DEPLOY / "redis/redis.conf").read_text()),
    "kubernetes": redis_conf(
        next(one for one in MANIFESTS if name_of(one) == "ConfigMap/redis")["data"]["redis.conf"]
    ),
    "compose": redis_conf("\n".join(one.strip("-") for one in COMPOSE["services"]["redis"]["command"][1:])),
}


@pytest.mark.parametrize("where", CONFIGURED)
def test_redis_keeps_what_it_has_answered_and_drops_nothing(where: str) -> None:
    told = CONFIGURED[where]
    assert (told["appendonly"], told["appendfsync"]) == ("yes", "always")
    assert told["maxmemory-policy"] == "noeviction"
    if where != "compose":  # which nobody else can reach
        assert (told["port"], told["tls-port"]) == ("0", "6379")
        assert "aclfile" in told


# -- systemd -------------------------------------------------------------------------------------------------


def section(path: Path) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line[:1].isalpha():
            name, _, value = line.partition("=")
            told.setdefault(name, []).append(value)
    return told


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_confined_and_started_again_unless_that_is_hopeless(path: Path) -> None:
    told = section(path)
    command = shlex.split(told["ExecStart"][0])
    module = command[command.index("-m") + 1]
    assert told["Restart"] == ["always"]
    assert set(told["RestartPreventExitStatus"][0].split()) == HOPELESS[module]
    assert told["User"] == ["spotfed"]
    assert told["ProtectSystem"] == ["strict"]
    assert told["CapabilityBoundingSet"] == [""]
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictNamespaces"):
        assert told[name] == ["yes"], name
    # With a read-only system these are all that it can write to.
    assert "SPOTFED_STATE_DIR=/var/lib/spotfed" in told["Environment"]
    assert "NUMBA_CACHE_DIR=/var/cache/spotfed" in told["Environment"]
    assert (told["StateDirectory"], told["CacheDirectory"]) == (["spotfed"], ["spotfed"])
    _parses(module, command[command.index("-m") + 2 :])


def _parses(module: str, options: list[str]) -> None:
    """Those of a cloud have options that must be there."""
    if module in {"workers.owner", "workers.cloud_agent"}:
        parser = importlib.import_module(f"{module}.__main__").parser
        assert parser().parse_args(options).cloud


def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here (Debian: systemd)")
    for path in UNITS:  # what is not installed here is put in its place
        text = (
            path.read_text()
            .replace("/opt/spotfed/bin/python", "/bin/true")
            .replace("User=spotfed", "User=root")
        )
        (tmp_path / path.name).write_text(text.replace("Documentation=man:spotfed(1)", ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    faults = [line for line in done.stderr.splitlines() if "spotfed-" in line]
    assert faults == []


# -- Kubernetes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", WORKLOADS, ids=name_of)
def test_a_pod_runs_as_nobody_in_particular(manifest: dict[str, Any]) -> None:
    pod = manifest["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} <= container["resources"].keys()
    assert ":latest" not in container["image"]
    mounted = {one["name"] for one in container["volumeMounts"]}
    given = {one["name"] for one in pod["volumes"]}
    given |= {one["metadata"]["name"] for one in manifest["spec"].get("volumeClaimTemplates", [])}
    assert mounted == given
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["app.kubernetes.io/part-of"] == "spotfed"


@pytest.mark.parametrize("manifest", OURS, ids=name_of)
def test_secrets_are_referred_to_and_files_are_where_settings_say(manifest: dict[str, Any]) -> None:
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    module, *options = container["args"]
    assert module in HOPELESS
    told = {one["name"]: one for one in container["env"]}
    assert "secretKeyRef" in told["SPOTFED_REDIS_URL"]["valueFrom"]
    places = {Path(one["mountPath"]) for one in container["volumeMounts"]}
    assert {Path("/var/lib/spotfed"), Path("/var/cache/spotfed"), Path("/tmp")} <= places
    paths = [one["value"] for one in told.values() if str(one.get("value", "")).startswith("/")]
    for path in [*paths, *(one for one in options if one.startswith("/"))]:
        assert Path(path).parent in places, path
    # A private key that others may read is refused (broker.signing.key_files).
    for volume in pod["volumes"]:
        if volume["name"] == "signing":
            assert volume["secret"]["defaultMode"] & 0o007 == 0
    _parses(module, options)


def test_one_owner_a_cloud_and_one_redis() -> None:
    named = {one["metadata"]["name"]: one["spec"] for one in WORKLOADS}
    assert named["redis"]["replicas"] == 1
    owners = {name.removeprefix("cloud-"): told for name, told in named.items() if name.startswith("cloud-")}
    listed = tomllib.loads((DEPLOY / "kubernetes/federation.toml").read_text())["cloud"]
    assert owners.keys() == {one["id"] for one in listed} == CLOUDS
    for cloud, told in owners.items():
        assert (told["replicas"], told["strategy"]) == (1, {"type": "Recreate"})
        pod = told["template"]["spec"]
        assert pod["containers"][0]["args"][1:3] == ["--cloud", cloud]
        claims = [one["persistentVolumeClaim"] for one in pod["volumes"] if one["name"] == "state"]
        assert claims == [{"claimName": f"cloud-{cloud}"}]
        assert f"PersistentVolumeClaim/cloud-{cloud}" in map(name_of, MANIFESTS)


def test_the_api_is_probed_where_it_answers() -> None:
    (api,) = [one for one in OURS if one["metadata"]["name"] == "api"]
    (container,) = api["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert [str(one["containerPort"]) for one in container["ports"]] == [told["SPOTFED_PORT"]]
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "https", "scheme": "HTTPS"}
    services = {one["metadata"]["name"]: one["spec"] for one in MANIFESTS if one["kind"] == "Service"}
    assert services["api"]["ports"][0]["targetPort"] == container["ports"][0]["name"]


def test_the_page_makes_every_secret_that_a_pod_names() -> None:
    text = (DEPLOY / "README.md").read_text()
    made = set(re.findall(r"create secret generic ([\w-]+)", text))
    made |= {f"redis-{user}" for user in re.findall(r"for user in ([\w -]+);", text)[0].split()}
    made |= {f"signing-cloud-{cloud}" for cloud in re.findall(r"for cloud in ([\w -]+);", text)[0].split()}
    named = set()
    for manifest in WORKLOADS:
        pod = manifest["spec"]["template"]["spec"]
        named |= {one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
        named |= {
            one["valueFrom"]["secretKeyRef"]["name"]
            for one in pod["containers"][0].get("env", [])
            if "secretKeyRef" in one.get("valueFrom", {})
        }
    assert named <= made


def test_the_kustomization_names_every_manifest() -> None:
    told = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())
    there = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(told["resources"]) == there
    if shutil.which("kubectl") is None:
        return
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, text=True, check=True
    )
    built = list(yaml.safe_load_all(done.stdout))
    assert len(built) == len(MANIFESTS) + 1
    pods = [one["spec"]["template"]["spec"] for one in built if one["kind"] == "Deployment"]
    images = {pod["containers"][0]["image"] for pod in pods}
    assert images == {f"spotfed:{version()}"}


# -- containers ----------------------------------------------------------------------------------------------


def version() -> str:
    return str(tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]["version"])


def test_compose_runs_a_whole_federation() -> None:
    services = COMPOSE["services"]
    assert {f"cloud-{cloud}" for cloud in CLOUDS} <= services.keys()
    for name, told in services.items():
        assert told["read_only"], name
        assert told["cap_drop"] == ["ALL"], name
        named = {one.split(":")[0] for one in told.get("volumes", [])}
        files = {one for one in named if one.startswith(".")}
        assert named - files <= COMPOSE["volumes"].keys(), name
        for file in files:
            assert (DEPLOY / "compose" / file).exists(), file
        if name in {"redis", "first-key"}:
            continue
        assert told["image"] == f"spotfed:{version()}"
        module, *options = told["command"]
        assert module in HOPELESS
        _parses(module, options)
    assert services["api"]["ports"] == ["127.0.0.1:8000:8000"]
    built = services["api"]["build"]
    assert (DEPLOY / "compose" / built["context"]).resolve() == PROJECT_ROOT
    assert (PROJECT_ROOT / built["dockerfile"]).exists()


def test_the_image_holds_what_the_packages_are_and_runs_as_another_user_than_root() -> None:
    text = (DEPLOY / "container/Containerfile").read_text()
    copied = {
        one for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE) for one in line.split()[:-1]
    }
    sent = {line[1:] for line in (PROJECT_ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    assert copied == sent
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())
    needed = {*project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"], "README.md", "LICENSE"}
    assert needed | {"pyproject.toml", "requirements.lock"} == copied
    assert all((PROJECT_ROOT / one).exists() for one in copied)
    (user,) = re.findall(r"^USER (\d+):\d+$", text, re.MULTILINE)
    assert {one["spec"]["template"]["spec"]["securityContext"]["runAsUser"] for one in OURS} == {int(user)}
    assert "SPOTFED_STATE_DIR=/var/lib/spotfed" in text
    assert "--require-hashes" in text
