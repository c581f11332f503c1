"""No file of the user's is written over, and one that cannot be written is said to be so."""

import os
from pathlib import Path

import pytest

from pycomm import trace
from pycomm.cli import main
from pycomm.errors import UsageError
from pycomm.files import check_writable, write_text


def test_what_exists_is_kept_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("mine")
    with pytest.raises(UsageError, match=r"^--out: '.*mine\.txt' exists; --force writes over it$"):
        write_text(file, "yours", option="--out")
    assert file.read_text() == "mine"
    write_text(file, "ü", force=True)
    assert file.read_bytes() == "ü".encode()


def test_folders_and_missing_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"' is a folder$"):
        check_writable(tmp_path, force=True)
    with pytest.raises(UsageError, match=r"there is no folder '.*nowhere'$"):
        check_writable(tmp_path / "nowhere" / "file")


def test_without_permission_it_is_said_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(UsageError, match=r"file': Permission denied$"):
        check_writable(tmp_path / "file")


def test_what_the_system_refuses_in_the_end_is_no_traceback() -> None:
    with pytest.raises(UsageError, match=r"'/dev/full': No space left on device$"):
        write_text("/dev/full", "text", force=True)


@pytest.mark.parametrize(
    "command",
    [
        "schedule ring --ranks 4 --out /nowhere/at/all",
        "fit r.jsonl --out /nowhere/at/all",
        "predict --models alexnet --networks 10gbe --plot /nowhere/at/all",
        "predict --models alexnet --networks 10gbe --timeline /nowhere/at/all",
        "bench copy --sizes 4K --out /nowhere/at/all",
        "bench allreduce --sizes 4K --out /nowhere/at/all",
    ],
)
def test_every_command_names_its_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"pycomm: {command.split()[-2]}: '/nowhere/at/all': there is no folder '/nowhere/at'\n"


def test_the_library_refuses_alike(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        trace.write(trace.Trace(name="t", layers=()), file)
    with pytest.raises(UsageError, match="there is no folder"):
        trace.write(trace.Trace(name="t", layers=()), tmp_path / "nowhere" / "t.jsonl")
