"""Protobuf messages declared at run time: the fields that are read, by name, number and type; others are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, tuple[int, str]]


def declared(package: str, messages: Mapping[str, Fields], root: str) -> Any:
    """The class of message `root`. A type is one of protobuf's, or a message of these.

    `*` after it: a list; `?`: 0 is told from nothing.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    proto = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field, number=number)
            added.label = proto.LABEL_REPEATED if kind.endswith("*") else proto.LABEL_OPTIONAL
            if kind.endswith("?"):
                added.proto3_optional, added.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field}")
            kind = kind.rstrip("*?")
            if kind in messages:
                added.type, added.type_name = proto.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                added.type = getattr(proto, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{root}"))


def parsed(kind: Any, content: bytes) -> Any:
    """A message. ValueError where these bytes are none."""
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(content)
    except DecodeError as error:
        raise ValueError(str(error)) from None
