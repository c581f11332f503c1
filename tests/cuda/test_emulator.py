"""The emulator itself: what it catches, and how weak its memory is.

Each litmus has an answer known from PTX's memory model.
"""

import pytest

from pycomm import _emulator

SEEDS = 300

ALWAYS = {
    "message passing, release and acquire": "",
    "message passing, fence and acquire": "",
    "release by one thread for another, after a barrier": "",
    "a line": "",
    "bulk copy": "",
    "bulk copy out of bounds": "bulk copy out of bounds: 16 bytes at byte 64 of 'data' (64 bytes)",
    "bulk copy not aligned": "a bulk copy is not aligned to 16 bytes",
    "bulk copy without its shared memory": "a bulk copy out of bounds of shared memory",
    "out of bounds": "store out of bounds: 8 bytes at byte 64 of 'data' (64 bytes)",
    "vector out of bounds": "load out of bounds: 4 bytes at byte 64 of 'data' (64 bytes)",
    "never written": "load of 4 bytes at byte 0 of 'fresh', which nothing has written",
    "not aligned": "load of 8 bytes is not aligned",
    "barrier in a branch": "barrier",
    "device scope to another device": "device scope",
    "waits for ever": "no end after 100000 switches",
}
SOMETIMES = {
    "message passing, no release": "stale",
    "message passing, no acquire": "stale",
    "release by one thread for another, no barrier": "stale",
    "a vector store": "torn",
    "bulk copy, no fence before": "stale",
    "bulk copy, no wait": "stale",
    "bulk copy, no fence after": "stale",
}


def seen(name: str, seeds: int = SEEDS) -> set[str]:
    return {_emulator.run_litmus(name, seed) for seed in range(seeds)}


def test_every_litmus_has_an_answer() -> None:
    assert set(_emulator.litmus_names()) == set(ALWAYS) | set(SOMETIMES)


@pytest.mark.parametrize("name", ALWAYS)
def test_what_order_and_checks_ask_for_holds_under_every_seed(name: str) -> None:
    outcomes = seen(name, 20 if name == "waits for ever" else SEEDS)
    assert all(ALWAYS[name] in outcome for outcome in outcomes), outcomes
    assert ("" in outcomes) == (ALWAYS[name] == "")


@pytest.mark.parametrize("name", SOMETIMES)
def test_what_nothing_orders_is_seen_out_of_order_under_some_seeds(name: str) -> None:
    assert seen(name) == {"", SOMETIMES[name]}


def test_a_seed_repeats_its_run() -> None:
    name = "message passing, no release"
    assert [_emulator.run_litmus(name, s) for s in range(100)] == [_emulator.run_litmus(name, s) for s in range(100)]
