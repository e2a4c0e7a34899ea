"""Values of a JSON schema, drawn: for the schemas that pydantic makes of our messages."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_NUMBERS = {"min_value": "minimum", "max_value": "maximum"}


def values(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """JSON values of ``schema``, whose references lead to ``definitions``."""
    if "$ref" in schema:
        return values(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return st.one_of([values(one, definitions) for one in schema[several]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "object":
            return _objects(schema, definitions)
        case "array":
            most = min(schema.get("maxItems", 3), schema.get("minItems", 0) + 2)
            items = values(schema["items"], definitions)
            return st.lists(items, min_size=schema.get("minItems", 0), max_size=most)
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True).map(lambda text: text[:60])
        case "string":
            return st.text("abc", min_size=schema.get("minLength", 0), max_size=9)
        case "integer":
            bounds = {name: schema.get(bound, default) for (name, bound), default in _bounds(1_000)}
            return st.integers(**bounds)
        case "number":
            bounds = {name: schema.get(bound, default) for (name, bound), default in _bounds(1_000.0)}
            exclusive = {"min_value": schema["exclusiveMinimum"] + 1} if "exclusiveMinimum" in schema else {}
            return st.floats(**(bounds | exclusive), allow_nan=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    raise AssertionError(f"no values for {schema}")


def _bounds(most: float) -> Any:
    return zip(_NUMBERS.items(), (0, most), strict=True)


def _objects(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "properties" not in schema:
        names = values({"type": "string"} | schema.get("propertyNames", {}), definitions)
        if "patternProperties" in schema:
            ((pattern, of),) = schema["patternProperties"].items()
            names = st.from_regex(pattern, fullmatch=True)
        else:
            of = schema["additionalProperties"]
            if not schema.get("propertyNames"):
                names = st.integers(0, 9).map(str)
        return st.dictionaries(names, values(of, definitions), max_size=2)
    required = set(schema.get("required", ()))
    drawn = {name: values(one, definitions) for name, one in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: one for name, one in drawn.items() if name in required},
        optional={name: one for name, one in drawn.items() if name not in required},
    )
