"""Checks the installed Python packages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement

from broker.contract import VERSION
from broker.doctor.check import CheckResult, check, failure, ok, warning
from broker.doctor.installation import Installation

#: Optional packages: the extra that installs each, and its purpose.
EXTRAS = {
    "matplotlib": ("plots", "pictures of experiments and replays"),
    "pyarrow": ("parquet", "traces in Parquet files"),
    "boto3": ("buckets", "states of batch jobs in a bucket"),
    "scipy": ("solvers", "checks against a general solver"),
    "opentelemetry-sdk": ("telemetry", "spans for an OpenTelemetry collector"),
}


@check("packages")
def check_packages(_: Installation) -> CheckResult:
    """Check that the packages that spotfed needs are installed, in versions that it works with."""
    try:
        spotfed = metadata.distribution("spotfed")
    except metadata.PackageNotFoundError:
        return warning("spotfed is not installed, only importable", "make setup, or pip install spotfed")
    wrong = []
    for text in spotfed.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue  # of a newer form of metadata: not ours to judge
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = installed_version(requirement.name)
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name}{requirement.specifier} ({version or 'missing'})")
    found = f"spotfed {spotfed.version}, contract version {VERSION}"
    if wrong:
        return failure(f"{found}; not as it needs them: {', '.join(wrong)}", "make setup, or reinstall it")
    return ok(f"{found}, and all packages that it needs")


@check("extra")
def check_extras(_: Installation) -> Iterator[CheckResult]:
    """List which optional packages are installed. Nothing is wrong without them."""
    for package, (extra, purpose) in EXTRAS.items():
        name = f"extra {extra}"
        if installed_version(package) is not None:
            yield ok(f"{package} is installed, for {purpose}", name=name)
        else:
            found = f"{package} is not installed; it is for {purpose}"
            yield ok(found, f"if you want that: pip install 'spotfed[{extra}]'", name=name)


def installed_version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
