"""pycomm/_core.pyi, which the type checker trusts, names what the compiled module holds, and nothing else."""

import ast
from collections.abc import Iterable
from pathlib import Path

import pycomm
from pycomm import _core

STUB = Path(pycomm.__file__).with_name("_core.pyi")


def names_in(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """The names a module or class body of a stub defines: functions, classes and annotated values."""
    defined: dict[str, ast.stmt] = {}
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            defined[statement.name] = statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            defined[statement.target.id] = statement
    return defined


def public(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_the_stub_and_the_module_hold_the_same_names():
    stub = names_in(ast.parse(STUB.read_text()).body)
    assert public(stub) == public(vars(_core))


def test_each_class_of_the_stub_holds_the_members_of_the_compiled_one():
    classes = {
        name: node
        for name, node in names_in(ast.parse(STUB.read_text()).body).items()
        if isinstance(node, ast.ClassDef)
    }
    stub = {name: public(names_in(node.body)) for name, node in classes.items()}
    module = {name: public(vars(getattr(_core, name))) for name in classes}
    assert stub == module
    assert any(stub.values())
