"""Files that pycomm writes for the user: never over another without leave, and in words where one cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

from pycomm.errors import UsageError


def check_writable(path: str | Path, *, force: bool = False, option: str = "") -> None:
    """Raises UsageError, naming `option`, when `path` exists and `force` is not given, or it cannot be written."""
    path = Path(path)
    named = f"{option}: {str(path)!r}" if option else repr(str(path))
    if path.is_dir():
        raise UsageError(f"{named} is a folder")
    if path.exists() and not force:
        raise UsageError(f"{named} exists; --force writes over it")
    if not path.parent.is_dir():
        raise UsageError(f"{named}: there is no folder {str(path.parent)!r}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{named}: Permission denied")


def write_text(path: str | Path, text: str, *, force: bool = False, option: str = "") -> None:
    """Write `text` in UTF-8. Raises UsageError as check_writable does."""
    check_writable(path, force=force, option=option)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error, option) from error


def unwritable(path: str | Path, error: OSError, option: str = "") -> UsageError:
    """The error of a file that could not be written after all."""
    return UsageError(f"{option}: {str(path)!r}: {error.strerror}" if option else f"{str(path)!r}: {error.strerror}")
