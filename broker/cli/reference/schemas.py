"""JSON schemas of messages as tables."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from broker.cli.reference.markdown import code, prose, table

#: What a docstring says of fields: names and a colon, at its beginning or after a sentence.
_SAID = re.compile(r"(?:^|(?<=[.;] ))(`*[a-z]\w*`*(?:(?:, | and )`*[a-z]\w*`*)*): ")
_JSON_WORDS = {"None": "null", "True": "true", "False": "false"}
_BETWEEN = re.compile(r", | and ")
_LINK = re.compile(r"\[(\w+)\]\(#\w+\)")
_LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "≥ {} characters",
    "maxLength": "≤ {} characters",
    "minItems": "≥ {} items",
    "maxItems": "≤ {} items",
}


def described(schema: dict[str, Any]) -> list[str]:
    """A message: what it is, and its fields, or the values of an enumeration."""
    text, said = told_apart(schema.get("description", ""), schema.get("properties", {}))
    return [prose(text), "", *fields(schema, said)]


def fields(schema: dict[str, Any], said: Mapping[str, str] | None = None) -> list[str]:
    """The fields of a message, or the values of an enumeration. said: what is known of fields beside that."""
    if "enum" in schema:
        return [f"One of {', '.join(code(str(one)) for one in schema['enum'])}."]
    required = set(schema.get("required", ()))
    rows = []
    for name, one in schema.get("properties", {}).items():
        default = "required" if name in required else _default(one)
        what = one.get("description") or (said or {}).get(name)
        rows.append((code(name), type_of(one), default, prose(what)))
    if any(row[3] for row in rows):
        return [table(("field", "type", "default", "what"), rows)]
    return [table(("field", "type", "default"), (row[:3] for row in rows))]


def told_apart(text: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Of a docstring what it says of fields by name ("cores: of an instance. sla, risk: …"), and the rest.

    A field whose name ends in a unit may be written without it in messages: ``poll_s`` speaks of ``poll``.
    """
    said: dict[str, str] = {}
    paragraphs = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        parts = _SAID.split(" ".join(paragraph.split()))
        rest = parts[0]
        for named_, meaning in zip(parts[1::2], parts[2::2], strict=True):
            found = [one.strip("`") for one in _BETWEEN.split(named_)]
            known = [one if one in names else one.removesuffix("_s") for one in found]
            if all(one in names for one in known):
                said |= dict.fromkeys(known, meaning.strip().rstrip(".;"))
            else:
                rest += f"{named_}: {meaning}"
        paragraphs.append(rest.strip())
    return in_json("\n\n".join(one for one in paragraphs if one)), {
        name: in_json(one) for name, one in said.items()
    }


def in_json(text: str) -> str:
    """With the words of messages for those of Python."""
    return re.sub(r"\b(?:None|True|False)\b", lambda found: _JSON_WORDS[found[0]], text)


def _default(schema: dict[str, Any]) -> str:
    return code(json.dumps(schema["default"])) if "default" in schema else ""


def type_of(schema: dict[str, Any]) -> str:
    """A type in words, with links to messages on the same page."""
    if "$ref" in schema:
        return named(schema["$ref"].rpartition("/")[2])
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        return " or ".join(dict.fromkeys(map(type_of, several)))
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return " or ".join(code(json.dumps(one)) for one in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        kind = f"list of {type_of(schema['items'])}" if "items" in schema else "list"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        kind = f"object of {type_of(schema['additionalProperties'])}"
    limits = [said.format(_number(schema[name])) for name, said in _LIMITS.items() if name in schema]
    return ", ".join([kind, *limits])


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"


def named(name: str) -> str:
    """A link to a message."""
    return f"[{name}](#{name.lower()})"


def unlinked(text: str, known: set[str]) -> str:
    """Without links to messages that are not ``known`` on this page."""
    return _LINK.sub(lambda found: found[0] if found[1] in known else code(found[1]), text)
