"""The lines of a text file, and errors that name file, line and reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pycomm.errors import UsageError

_LARGEST = 2**60


class Lines:
    """Iterates over the lines without their ends; `number` counts them from 1, and `fail` is about the current one."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.number = 0
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.path}: cannot be read: {error}") from error
        # At line feeds alone: a name may hold what else Unicode counts as a line's end.
        self._lines = text.removesuffix("\n").split("\n") if text else []

    def __iter__(self) -> Iterator[str]:
        for self.number, line in enumerate(self._lines, start=1):  # noqa: B020
            yield line
        self.number = len(self._lines)

    def fail(self, reason: str) -> UsageError:
        """The error about the current line, to be raised by the caller."""
        return UsageError(f"{self.path}:{max(1, self.number)}: {reason}")

    def number_of(self, text: str, what: str) -> float:
        """`text` as a finite number that is not negative."""
        value = self._float(text, what)
        if not 0 <= value < float("inf"):
            raise self.fail(f"{what} is {text!r}; it must be finite and not negative")
        return value

    def positive(self, text: str, what: str) -> float:
        """`text` as a finite number above 0."""
        value = self._float(text, what)
        if not 0 < value < float("inf"):
            raise self.fail(f"{what} is {text!r}; it must be finite and positive")
        return value

    def whole(self, text: str, what: str) -> int:
        """`text` as a whole number that is not negative; `12.000` is one."""
        value = self.number_of(text, what)
        if value != int(value):
            raise self.fail(f"{what} is {text!r}, not a whole number")
        if value >= _LARGEST:
            raise self.fail(f"{what} is {text!r}, too large")
        return int(value)

    def _float(self, text: str, what: str) -> float:
        try:
            return float(text if text.isascii() and "_" not in text else "no number")
        except ValueError:
            raise self.fail(f"{what} is {text!r}, not a number") from None
