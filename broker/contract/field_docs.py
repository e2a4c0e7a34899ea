"""Reads the docstrings that stand below the fields of a model.

Pydantic's own ``use_attribute_docstrings`` reads them from the source while the class is made, which takes
longer than to make it. Here they are read when they are shown.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel


def read_field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the fields of a model, by the name of the field."""
    (definition,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(text.value.value, str)
    }


def describe_fields(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Put the docstrings of a model's fields into its JSON schema; a ``json_schema_extra`` of pydantic."""
    for name, text in read_field_docs(model).items():
        schema["properties"][name]["description"] = text
