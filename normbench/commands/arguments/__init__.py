"""What a command takes, in a module of its name: EPILOG (its examples), `add_arguments(parser)`, `run(given, console)`.

`run` makes the call and returns its exit code; it alone imports what takes long: help is instant.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Request = TypeVar("Request", bound="DataclassInstance")


def from_options(request: type[Request], given: Namespace, **otherwise: Any) -> Request:
    """A command's dataclass of what was asked for: each field from the option of its name, but those given here."""
    names = [field.name for field in fields(request) if field.name not in otherwise]
    return request(**{name: getattr(given, name) for name in names}, **otherwise)
