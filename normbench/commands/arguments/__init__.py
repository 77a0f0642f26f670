"""One module per command: EPILOG (its examples), `add_arguments(parser)` and `run(arguments, console)`.

`run` calls the command and returns its exit code. It does the slow imports, so that help is instant.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Request = TypeVar("Request", bound="DataclassInstance")


def from_options(request: type[Request], given: Namespace, **otherwise: Any) -> Request:
    """A command's request dataclass: each field from the option of its name, except those passed here."""
    names = [field.name for field in fields(request) if field.name not in otherwise]
    return request(**{name: getattr(given, name) for name in names}, **otherwise)
