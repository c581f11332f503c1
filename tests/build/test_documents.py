"""The examples and links of the documents: what a reader is told to type is typed here, and does what it says.

In a ``console`` block the lines that begin with ``$ pycomm`` or ``$ mpirun`` are run, in one folder a document, and
must succeed; others (``make``, ``pip install``, …) are for a reader without an install. Output shown below a command
must be its output; in a block marked ``console measured``, where figures change, only its lines without a digit.
``python`` blocks are doctests.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")])
NAMES = [str(path.relative_to(CHECKOUT)) for path in DOCUMENTS]
RUN = ("pycomm", "mpirun")
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def blocks(text: str, language: str) -> list[tuple[str, str]]:
    """The fenced blocks in `language`: the rest of the opening line, and the body."""
    return re.findall(rf"^```{language}\b *(.*)\n((?:.*\n)*?)```$", text, flags=re.MULTILINE)


def commands(body: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block with the output lines shown below each."""
    found: list[tuple[str, list[str]]] = []
    for line in body.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def squeezed(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines if line.strip()]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_commands_of_the_document_succeed_and_print_what_it_shows(name, tmp_path):
    for mark, body in blocks((CHECKOUT / name).read_text(), "console"):
        for command, shown in commands(body):
            if shlex.split(command)[0] not in RUN:
                continue
            done = subprocess.run(
                command,
                shell=True,
                cwd=tmp_path,
                env={**os.environ, "PATH": PATH, "PYCOMM_TUNING": str(tmp_path / "tuning.json")},
                capture_output=True,
                text=True,
                timeout=300,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            printed, wanted = squeezed(done.stdout.splitlines()), squeezed(shown)
            if "measured" in mark:
                wanted = [line for line in wanted if not re.search(r"\d", line)]
                assert [line for line in wanted if line not in printed] == [], command
            elif wanted:
                assert printed == wanted, command


@pytest.mark.parametrize("name", NAMES)
def test_python_examples_of_the_document_give_what_it_shows(name, tmp_path):
    examples = "\n".join(body for _, body in blocks((CHECKOUT / name).read_text(), "python"))
    assert ">>>" in examples or not examples, "a python block that is no doctest would not be checked"
    script = tmp_path / "examples.txt"
    script.write_text(examples)
    flags = "doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE"
    program = f"import doctest, sys; sys.exit(doctest.testfile({str(script)!r}, False, optionflags={flags}).failed)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_links_of_the_document_lead_somewhere(name):
    text = (CHECKOUT / name).read_text()
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert [target for target in targets if target and not (CHECKOUT / name).parent.joinpath(target).exists()] == []


def test_every_make_target_a_document_names_exists():
    makefile = (CHECKOUT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", makefile, flags=re.MULTILINE))
    targets = {name for group in targets for name in group.split()}
    named = {target for path in DOCUMENTS for target in re.findall(r"\bmake ([a-z-]+)`", path.read_text())}
    named |= {target for path in DOCUMENTS for target in re.findall(r"^\$ make ([a-z-]+)", path.read_text(), re.M)}
    assert "bench" in named
    assert named - targets == set()
