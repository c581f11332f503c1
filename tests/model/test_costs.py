"""Costs and their fit: known parameters are recovered from noisy data, with intervals that hold them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pycomm.errors import UsageError
from pycomm.model import LatencyBandwidth, LogGP, Measured, Network, Piecewise, simulate
from pycomm.model.fit import fit_line, fit_pieces
from pycomm.model.measurements import (
    choose,
    fit_series,
    link_behind,
    parse_options,
    read_fitted,
    read_series,
    to_record,
)
from pycomm.model.network import Link

SIZES = np.array([4 * 2**power for power in range(23)] + [5000 * step for step in range(1, 20)], float)


def noisy(times, seed, share=0.03):
    return times * (1 + share * np.random.default_rng(seed).standard_normal(len(times)))


def test_a_table_is_a_line_between_its_points_and_goes_on_above():
    cost = Measured(((10.0, 1.0), (20.0, 2.0), (40.0, 4.0)))
    assert cost([5.0, 10.0, 15.0, 30.0, 80.0]).tolist() == pytest.approx([1.0, 1.0, 1.5, 3.0, 8.0])
    with pytest.raises(UsageError, match="growing"):
        Measured(((10.0, 1.0), (10.0, 2.0)))
    for time_s in (float("nan"), -1.0):
        with pytest.raises(UsageError, match=r"the time of 20\.0 bytes is"):
            Measured(((10.0, 1.0), (20.0, time_s)))


def test_pieces_hold_from_their_break_on():
    cost = Piecewise((100.0,), (LatencyBandwidth(1.0, 0.0), LatencyBandwidth(5.0, 0.1)))
    assert cost([0.0, 99.0, 100.0, 200.0]).tolist() == pytest.approx([1.0, 1.0, 15.0, 25.0])
    with pytest.raises(UsageError, match="2 pieces, not 1"):
        Piecewise((1.0,), (LatencyBandwidth(1.0, 0.0),))


def test_loggp_by_hand():
    # latency 5, overhead 1, gap 2, 0.5 a byte: one message of 11 bytes 5 + 2 + 10 x 0.5 = 12;
    # three of them: the others leave every 2 + 5 = 7: 12 + 14 = 26
    model = LogGP(5.0, 1.0, 2.0, 0.5)
    assert float(model(11.0)) == 12.0
    assert model.train(3, 11.0) == 26.0
    with pytest.raises(UsageError, match="messages is 0"):
        model.train(0, 11.0)


@pytest.mark.parametrize("seed", range(8))
def test_a_line_is_recovered_from_noise(seed):
    wanted = LatencyBandwidth(20e-6, 0.8e-9)
    piece = fit_line(SIZES, noisy(wanted(SIZES), seed)).pieces[0]
    assert piece.latency_s.value == pytest.approx(20e-6, rel=0.05)
    assert piece.seconds_per_byte.value == pytest.approx(0.8e-9, rel=0.05)


def test_the_intervals_hold_the_truth_about_as_often_as_they_say():
    wanted = LatencyBandwidth(20e-6, 0.8e-9)
    held = 0
    for seed in range(200):
        piece = fit_line(SIZES, noisy(wanted(SIZES), seed)).pieces[0]
        held += piece.latency_s.low <= 20e-6 <= piece.latency_s.high
    assert 180 <= held <= 198  # 190 of 200 expected at 95 %, four standard deviations either way


@pytest.mark.parametrize("seed", range(8))
def test_breaks_are_chosen_by_the_data(seed):
    wanted = Piecewise(
        (8192.0, 262144.0), tuple(LatencyBandwidth(*one) for one in ((5e-6, 2e-10), (30e-6, 1e-9), (200e-6, 6e-10)))
    )
    fit = fit_pieces(SIZES, noisy(wanted(SIZES), seed, 0.01))
    assert [piece.from_bytes for piece in fit.pieces] == [0.0, 8192.0, 262144.0]
    assert [piece.latency_s.value for piece in fit.pieces] == pytest.approx([5e-6, 30e-6, 200e-6], rel=0.05)


def test_one_line_stays_one_piece():
    wanted = LatencyBandwidth(20e-6, 0.8e-9)
    for seed in range(5):
        assert len(fit_pieces(SIZES, noisy(wanted(SIZES), seed)).pieces) == 1
    assert len(fit_pieces(SIZES, wanted(SIZES)).pieces) == 1


def test_a_negative_latency_is_flagged():
    sizes = np.array([1000.0, 2000.0, 3000.0, 4000.0])
    fit = fit_line(sizes, (sizes - 500) * 1e-9)
    assert fit.pieces[0].latency_s.value < 0
    assert any("latency" in warning and "negative" in warning for warning in fit.warnings)
    assert link_behind(fit, "ring", 2).link.latency_s == 0.0


@pytest.mark.parametrize(
    ("sizes", "times"),
    [
        ([1, 2], [1, 2]),
        ([1, 2, 3], [1, 2]),
        ([1, 2, 3], [1, 0, 1]),
        ([1, 1, 1], [1, 1, 1]),
        ([1, 2, 3, float("inf")], [1, 2, 3, 4]),
        ([1, 2, 3], [1, 2, float("nan")]),
        ([1, 2, 3], ["a", "b", "c"]),
        ([], []),
    ],
)
def test_a_fit_refuses_what_it_cannot_use(sizes, times):
    with pytest.raises(UsageError, match="a fit needs"):
        fit_line(sizes, times)


def test_published_curves_need_pieces(traces):
    # one line misses real curves by 7 % and more on average, pieces by a few
    from pycomm.trace import read_latencies

    for file in ("allreduce2.log", "allreduce4.log"):
        sizes, times = zip(*read_latencies(traces / "bcaffe" / file), strict=True)
        assert fit_line(sizes, times).mean_error > 0.07
        assert fit_pieces(sizes, times, max_pieces=3).mean_error < 0.07


@pytest.mark.parametrize(("algorithm", "options"), [("ring", {}), ("tree", {}), ("mesh", {}), ("ps", {"servers": 2})])
def test_a_fit_at_two_ranks_predicts_sixty_four(algorithm, options):
    truth = Network(between=Link(pieces=((0.0, 12e-6, 0.9e-9),)))
    sizes = [4 * 128 * 4**power for power in range(10)]
    measured = [one.seconds for one in simulate(algorithm, 2, sizes, truth, options=options)]
    found = link_behind(fit_line(sizes, noisy(np.array(measured), 3)), algorithm, 2, options).link
    for size in (1 << 12, 1 << 22):
        wanted = simulate(algorithm, 64, [size], truth, options=options)[0].seconds
        got = simulate(algorithm, 64, [size], Network(between=found), options=options)[0].seconds
        assert got == pytest.approx(wanted, rel=0.06)


def case(algorithm, size, seconds, **more):
    record = {
        "record": "case",
        "benchmark": "allreduce",
        "backend": "native",
        "algorithm": algorithm,
        "options": "",
        "transport": "shm",
        "device": "cpu",
        "dtype": "float32",
        "op": "sum",
        "in_place": False,
        "buffers": "ordinary",
        "ranks": 2,
        "bytes": size,
        "status": "ok",
        "time_s": {"median": seconds},
    }
    return json.dumps({**record, **more})


def results(tmp_path, *lines):
    path = tmp_path / "results.jsonl"
    path.write_text("\n".join([json.dumps({"record": "run"}), *lines, json.dumps({"record": "end"})]) + "\n")
    return path


def test_results_become_series_and_a_fit_file_keeps_them(tmp_path):
    wanted = LatencyBandwidth(10e-6, 1e-9)
    lines = [case("ring", int(size), float(wanted(size))) for size in SIZES]
    lines += [case("tree", 64, 1.0, status="failed"), case("ring", 64, 1.0, benchmark="broadcast")]
    path = results(tmp_path, *lines)
    (series,) = read_series(path)
    assert (series.variant.algorithm, series.variant.ranks, len(series.points)) == ("ring", 2, len(set(SIZES)))
    record = to_record(fit_series(series), series)
    fitted = tmp_path / "fit.jsonl"
    fitted.write_text(json.dumps(record) + "\n")
    (algorithm, ranks, options, fit) = choose(read_fitted(fitted), "ring")
    assert (algorithm, ranks, options) == ("ring", 2, {})
    # a ring of two: two starts, n bytes through each port
    link = link_behind(fit, algorithm, ranks).link
    assert link.latency_s == pytest.approx(5e-6)
    assert link.bytes_per_s == pytest.approx(1e9)
    assert choose(read_fitted(path), "ring")[3].pieces[0].latency_s.value == pytest.approx(10e-6)


def test_what_makes_another_all_reduce_of_a_case_makes_another_series(tmp_path):
    others = [{}, {"in_place": True}, {"buffers": "symmetric"}, {"op": "max"}, {"device": "cuda"}, {"backend": "mpi"}]
    path = results(tmp_path, *(case("ring", 64, 1.0 + place, **other) for place, other in enumerate(others)))
    found = {series.variant.name: series.points for series in read_series(path)}
    assert found == {
        "native ring shm float32 2 ranks": ((64, 1.0),),
        "native ring shm float32 in place 2 ranks": ((64, 2.0),),
        "native ring shm float32 symmetric 2 ranks": ((64, 3.0),),
        "native ring shm float32 max 2 ranks": ((64, 4.0),),
        "native ring shm float32 cuda 2 ranks": ((64, 5.0),),
        "mpi ring shm float32 2 ranks": ((64, 6.0),),
    }


def test_the_fit_for_predictions_is_of_an_algorithm_that_can_be_simulated(tmp_path):
    def sizes(algorithm, count=8, **more):
        return [case(algorithm, 1 << power, 1e-6 + 1e-9 * (1 << power), **more) for power in range(count)]

    short = sizes("ring", 2)  # too few sizes for a fit: left out
    mixed = results(tmp_path, *sizes("library", backend="mpi"), *short, *sizes("tree"), *sizes("tree", ranks=4))
    assert choose(read_fitted(mixed), "ring")[:2] == ("tree", 2)
    assert choose(read_fitted(mixed), "tree")[:2] == ("tree", 4)
    with pytest.raises(UsageError, match="no all-reduce by an algorithm of pycomm"):
        choose(read_fitted(results(tmp_path, *sizes("library", backend="mpi"))), "ring")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ":2: not JSON"),
        ("3", ":2: not a record"),
        (json.dumps({"record": "case", "benchmark": "allreduce", "status": "ok"}), ":2: case without 'ranks'"),
        (case("ring", 64, float("inf")), ":2: time_s.median is inf"),
        (case("ring", 64, 0.0), ":2: time_s.median is 0.0"),
        (case("ring", 64, 1e-6, ranks=True), ":2: ranks is True, not a whole number"),
        (case("ring", 0.5, 1e-6), ":2: bytes is 0.5"),
        (case("ring", float("inf"), 1e-6), ":2: bytes is inf"),
        (100_000 * "[", ":2: not JSON"),
        ("", ":2: no all-reduce with status ok"),
    ],
)
def test_bad_results_get_file_line_and_reason(tmp_path, line, message):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({"record": "run"}) + "\n" + line + "\n")
    with pytest.raises(UsageError, match=message):
        read_series(path)


def test_ranks_of_one_host_and_of_several_are_fitted_apart(tmp_path):
    path = results(tmp_path, case("ring", 8, 1e-6), case("ring", 8, 5e-6, hosts=2))
    assert [(one.variant.name, one.points) for one in read_series(path)] == [
        ("native ring shm float32 2 ranks", ((8, 1e-6),)),
        ("native ring shm float32 2 hosts 2 ranks", ((8, 5e-6),)),
    ]


def test_a_results_file_may_speak_of_fit(tmp_path):
    run = json.dumps({"record": "run", "command": ["pycomm", "bench", "allreduce", "--out", "fit"]})
    lines = [case("ring", size, 1e-6 + size * 1e-9) for size in (8, 64, 512)]
    path = tmp_path / "fit"
    path.write_text("\n".join([run, *lines]) + "\n")
    assert choose(read_fitted(path), "ring")[:2] == ("ring", 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pieces": []}, ":1: no fit record: 0 breaks make 1 pieces"),
        ({"pieces": [{"from_bytes": 0}]}, ":1: no fit record: 'latency_s'"),
        ({"ranks": True}, ":1: no fit record: ranks is True"),
        ({"pieces": None}, ":1: no fit record"),
        ({"options": 3}, ":1: no fit record"),
    ],
)
def test_bad_fit_files_get_file_line_and_reason(tmp_path, change, message):
    path = results(tmp_path, *[case("ring", size, 1e-6 + size * 1e-9) for size in (8, 64, 512)])
    (series,) = read_series(path)
    fitted = tmp_path / "fit.jsonl"
    fitted.write_text(json.dumps({**to_record(fit_series(series), series), **change}) + "\n")
    with pytest.raises(UsageError, match=message):
        read_fitted(fitted)


def test_a_fit_file_holds_finite_figures(tmp_path):
    path = results(tmp_path, *[case("ring", size, 1e-6 + size * 1e-9) for size in (8, 64, 512)])
    (series,) = read_series(path)
    record = to_record(fit_series(series), series)
    record["pieces"][0]["latency_s"]["low"] = float("nan")
    fitted = tmp_path / "fit.jsonl"
    fitted.write_text(json.dumps(record) + "\n")
    with pytest.raises(UsageError, match=r":1: no fit record: .* is not finite"):
        read_fitted(fitted)


def test_options_are_read_strictly():
    assert parse_options("servers=2,dedicated") == {"servers": 2, "dedicated": 1}
    with pytest.raises(UsageError, match="'two' is not a whole number"):
        parse_options("servers=two")
