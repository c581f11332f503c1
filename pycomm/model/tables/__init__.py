"""Model tables: the tensors and FLOPs of networks people train. A new one is a function and a row here."""

from __future__ import annotations

from collections.abc import Callable

from pycomm.errors import UsageError
from pycomm.model.tables.alexnet import alexnet
from pycomm.model.tables.googlenet import googlenet
from pycomm.model.tables.inception import inception_v3
from pycomm.model.tables.layers import ModelLayer, ModelTable
from pycomm.model.tables.resnet import resnet50, resnet152
from pycomm.model.tables.transformer import bert_base, bert_large, gpt2
from pycomm.model.tables.vgg import vgg16

__all__ = ["TABLES", "ModelLayer", "ModelTable", "table"]

TABLES: dict[str, Callable[[], ModelTable]] = {
    "alexnet": alexnet,
    "vgg16": vgg16,
    "googlenet": googlenet,
    "resnet50": resnet50,
    "resnet152": resnet152,
    "inception-v3": inception_v3,
    "bert-base": bert_base,
    "bert-large": bert_large,
    "gpt2": gpt2,
}


def table(name: str) -> ModelTable:
    """The table of a network, by its name in either case. Raises UsageError for an unknown one."""
    if name.lower() not in TABLES:
        raise UsageError(f"unknown model {name!r}: one of {', '.join(TABLES)}")
    return TABLES[name.lower()]()
