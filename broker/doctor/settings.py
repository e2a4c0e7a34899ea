"""Checks the settings."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from broker.doctor.check import CheckResult, check, failure, ok, warning
from broker.doctor.installation import Installation
from broker.settings import Settings, display_value, unknown_variables, variable


@check("settings")
def check_settings(installation: Installation) -> Iterator[CheckResult]:
    """Check that the settings can be read, and list those that differ from their default."""
    if installation.settings_error is not None:
        yield failure(
            str(installation.settings_error),
            "correct it; until then nothing starts, and neither Redis nor the API can be looked for",
        )
        return
    settings = installation.settings
    defaults = []
    for name, field in Settings.model_fields.items():
        shown = display_value(name, getattr(settings, name))
        if name in settings.model_fields_set:
            default = display_value(name, field.get_default(call_default_factory=True))
            yield ok(f"{shown} (the default is {default})", name=f"setting {variable(name)}")
        else:
            defaults.append(f"{variable(name)}={shown}")
    yield ok(f"with their defaults: {', '.join(defaults)}" if defaults else "all of them are given")


@check("unknown settings")
def check_unknown_settings(installation: Installation) -> Iterator[CheckResult]:
    """Check that every variable that looks like a setting is one."""
    if installation.settings_error is not None:
        return
    names = [variable(name) for name in Settings.model_fields]
    for name in unknown_variables():
        nearest = get_close_matches(name.upper(), names, n=1)
        advice = f"did you mean {nearest[0]}?" if nearest else f"the settings are {', '.join(names)}"
        found = "there is no setting of this name, so it does nothing"
        yield warning(found, advice, name=f"setting {name}")


@check("conflicting settings")
def check_settings_conflicts(installation: Installation) -> Iterator[CheckResult]:
    """Check that the settings go together, and that none of them is for tests only."""
    settings = installation.settings
    if settings.reservation_ttl_s <= settings.reply_deadline_s:
        yield warning(
            f"a reservation lapses after {settings.reservation_ttl_s:g} s, while the broker may wait "
            f"{settings.reply_deadline_s:g} s for its answer",
            f"set it to more than {variable('reply_deadline_s')}",
            name=f"setting {variable('reservation_ttl_s')}",
        )
    if settings.failpoint is not None:
        yield failure(
            f"every process that starts with it kills or stops itself at {settings.failpoint}",
            "unset it, and start them again: it is for tests",
            name=f"setting {variable('failpoint')}",
        )
    if settings.advert_max_age_s <= settings.inbox_poll_s:
        yield warning(
            f"a cloud is taken for unreachable after {settings.advert_max_age_s:g} s, while an owner may "
            f"say that it lives every {settings.inbox_poll_s:g} s only",
            f"set it to some times {variable('inbox_poll_s')}",
            name=f"setting {variable('advert_max_age_s')}",
        )
