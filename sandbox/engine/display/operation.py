"""The operations on resources that planner, run and display talk about."""

from __future__ import annotations

from enum import StrEnum


class Op(StrEnum):
    """What is done to a resource, or found; as previews show it."""

    SAME = "same"
    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    DELETE_REPLACED = "delete original"
    GONE = "missing"
    DISCARD = "leave as it is"
    IMPORT = "import"
    REFRESH = "refresh"
