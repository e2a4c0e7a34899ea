"""Checks the keys that are kept in files: the first API key, and those that sign messages."""

from __future__ import annotations

import os
from collections.abc import Iterator

from broker.doctor.check import CheckResult, check, failure, ok, warning
from broker.doctor.installation import Installation
from broker.settings import variable
from broker.signing.key_files import (
    TrustError,
    list_key_files,
    local_key_files,
    read_private_key,
    read_trust_file,
)
from broker.storage.private_files import find_reader


@check("state directory key")
def check_api_key_file(installation: Installation) -> Iterator[CheckResult]:
    """Check that only this user can read the API key in the state directory."""
    path = installation.api_key_file
    if path is not None and os.access(path, os.F_OK) and find_reader(path):
        yield warning(f"others on this machine can read the API key in {path}", f"chmod 600 {path}")


@check("secret files")
def check_secret_files(installation: Installation) -> Iterator[CheckResult]:
    """Check that only this user can read the files with secrets that the settings name."""
    for setting in ("webhook_key_file", "cloud_secret_file", "tls_key", "client_key", "redis_key"):
        path = getattr(installation.settings, setting)
        if path is None or not path.exists():
            continue
        if fault := find_reader(path, group=setting.endswith("_key")):
            found, _, advice = fault.partition(": ")
            yield failure(f"{variable(setting)}: {found}", f"{advice}; no process starts with it")


@check("signatures")
def check_signatures(installation: Installation) -> CheckResult:
    """Check that messages between the broker and the clouds are signed, and signatures verified."""
    settings = installation.settings
    trust, signing_key = settings.trust, settings.signing_key
    local_trust = local_key_files(settings.state_dir).trust
    if trust is None and signing_key is None and os.access(local_trust, os.F_OK):
        trust = local_trust
    if trust is None:
        how = "believed without a signature" if signing_key is None else "signed, and not verified"
        return warning(
            f"messages between the broker and the clouds are {how}: anyone who can write to Redis can "
            "give orders",
            "make keys (`spotfed trust create`), set SPOTFED_SIGNING_KEY everywhere, then SPOTFED_TRUST",
        )
    try:
        believed = read_trust_file(trust).keys
        ours = {file: read_private_key(file) for file in list_key_files(signing_key)}
    except TrustError as error:
        return failure(str(error), "correct it: processes that need the file do not start without it")
    for file, key in ours.items():
        if key.public() not in believed:
            return failure(
                f"{trust} does not hold the key in {file}: what it signs is refused",
                "add its public half with `spotfed trust add`",
            )
    parties = len({key.issuer for key in believed})
    return ok(f"{trust} holds {len(believed)} public keys of {parties} parties")
