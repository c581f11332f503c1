"""Algorithms by name and options, as the command line and the communicator take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pycomm.errors import UsageError


@dataclass(frozen=True)
class Algorithm:
    """A registry name with its options; flags have the value 1."""

    name: str
    options: Mapping[str, int]

    @property
    def options_text(self) -> str:
        """As it is written behind the name: ``"servers=2,dedicated"``."""
        return ",".join(
            key if value == 1 and key == "dedicated" else f"{key}={value}" for key, value in self.options.items()
        )


def parse_algorithm(text: str) -> Algorithm:
    """``"ps:servers=2,dedicated"`` → name and options. Raises UsageError for what cannot be read."""
    name, _, written = text.partition(":")
    options: dict[str, int] = {}
    for item in filter(None, written.split(",")):
        key, equals, value = item.partition("=")
        if equals and not (value.isascii() and value.isdigit()):
            raise UsageError(f"algorithm {text!r}: option {key!r} is {value!r}, needs a whole number")
        options[key] = int(value) if equals else 1
    return Algorithm(name, options)
