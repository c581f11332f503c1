"""BERT-Base, BERT-Large (Devlin et al., arXiv 1810.04805) and GPT-2 (Radford et al. 2019, 12 layers).

The sequence length only moves FLOPs, not parameters. Attention adds, per position, a product with the keys
and one with the values: 4 · length · width FLOPs, counted with the block's output projection.
"""

from __future__ import annotations

from pycomm.model.tables.layers import ModelTable, Stack

_FEED_FORWARD = 4  # width of the inner layer over the model's


def bert_base(length: int = 64) -> ModelTable:
    return _bert("bert-base", 768, 12, length, "109,482,240")


def bert_large(length: int = 64) -> ModelTable:
    return _bert("bert-large", 1024, 24, length, "335,141,888")


def gpt2(length: int = 1024) -> ModelTable:
    """The decoder with its output tied to the token table: the table's product counts in the last layer."""
    width, vocabulary, positions = 768, 50257, 1024
    stack = Stack(width, 1, 1)
    stack.add("embedding", [("tokens", (vocabulary, width)), ("positions", (positions, width))], 0)
    for block in range(12):
        _norm(stack, f"block{block}.norm1", width, length)
        _dense(stack, f"block{block}.attention", width, 3 * width, length)
        _dense(stack, f"block{block}.projection", width, width, length, 4 * length * width * length)
        _norm(stack, f"block{block}.norm2", width, length)
        _feed_forward(stack, f"block{block}", width, length)
    _norm(stack, "norm", width, length)
    stack.add("output (tied)", [], 2 * width * vocabulary * length)
    return ModelTable(
        name="gpt2",
        layers=tuple(stack.layers),
        sample=f"sequence of {length} tokens",
        source="Radford et al. 2019; 124,439,808 parameters (OpenAI's released 124M model)",
    )


def _bert(name: str, width: int, blocks: int, length: int, published: str) -> ModelTable:
    vocabulary, positions, segments = 30522, 512, 2
    stack = Stack(width, 1, 1)
    tables = [("tokens", vocabulary), ("positions", positions), ("segments", segments)]
    stack.add("embedding", [(table, (rows, width)) for table, rows in tables], 0)
    _norm(stack, "embedding.norm", width, length)
    for block in range(blocks):
        for part in ("query", "key", "value"):
            _dense(stack, f"block{block}.{part}", width, width, length)
        _dense(stack, f"block{block}.projection", width, width, length, 4 * length * width * length)
        _norm(stack, f"block{block}.norm1", width, length)
        _feed_forward(stack, f"block{block}", width, length)
        _norm(stack, f"block{block}.norm2", width, length)
    _dense(stack, "pooler", width, width, 1)
    return ModelTable(
        name=name,
        layers=tuple(stack.layers),
        sample=f"sequence of {length} tokens",
        source=f"arXiv 1810.04805; {published} parameters (the released uncased encoder with its pooler)",
    )


def _dense(stack: Stack, name: str, inputs: int, outputs: int, length: int, extra_flops: int = 0) -> None:
    tensors = [("weight", (inputs, outputs)), ("bias", (outputs,))]
    stack.add(name, tensors, 2 * inputs * outputs * length + extra_flops)


def _norm(stack: Stack, name: str, width: int, length: int) -> None:
    stack.add(name, [("weight", (width,)), ("bias", (width,))], 2 * width * length)


def _feed_forward(stack: Stack, name: str, width: int, length: int) -> None:
    _dense(stack, f"{name}.expand", width, _FEED_FORWARD * width, length)
    _dense(stack, f"{name}.contract", _FEED_FORWARD * width, width, length)
