"""Generators by the sketches that they read: near the truth, or one line where they do not suit."""

import csv
import io
import json

import numpy as np
import pytest

from pansketch import MomentsSpec, decode
from pansketch.generators import M2MModel
from pansketch_collector.errors import CommandError
from pansketch_collector.ingest.ingest_loop import commit_batch
from pansketch_collector.queries.fleet_model import build
from pansketch_collector.queries.generator_registry import GENERATORS, GeneratorChoice
from pansketch_collector.storage import writer as store
from pansketch_collector.storage.reader import reading
from pansketch_collector.storage.tables.records import Selection
from pansketch_collector.validation.verdicts import Accepted

READS = {
    "privhp": ("fine", "air"),
    "kdtree": ("fine", "air"),
    "density": ("heavy",),
    "m2m": ("sums", "bars"),
    "pairwise": (),  # collector/queries/test_pairwise.py
}
READINGS = 4000
POINTS = ["--points", "5000"]
WINDS = ["calm", "north, east", "south"]


@pytest.fixture(scope="module")
def weather():
    """Readings (temp, humid, wind), temp and humid correlated, of a fixed seed."""
    rng = np.random.default_rng(11)
    first, second = rng.normal(size=(2, READINGS))
    temp = np.clip(15 + 8 * first, -40, 60)
    humid = np.clip(50 + 12 * (0.8 * second - 0.6 * first), 0, 100)
    return np.column_stack([temp, humid, rng.choice([0, 0, 1, 2], READINGS)])


@pytest.fixture
def fleet(small_fleet, arrive, weather):
    """Two devices with two windows of the streams with cells and with moments."""
    small_fleet.path.write_text(
        small_fleet.path.read_text().replace("epsilon: 1.0", "epsilon: 100")
    )
    messages = [
        arrive(
            small_fleet.topic(device, stream), small_fleet.release(device, sequence, stream, part)
        )
        for stream in ("heavy", "sums", "bars")
        for (device, sequence), part in zip(
            [("one", 1), ("one", 2), ("two", 1), ("two", 2)], np.split(weather, 4), strict=True
        )
    ]
    with store.opened(small_fleet.database) as opened:
        outcomes = commit_batch(opened, messages, small_fleet.rules, 1_000_001_000)
    assert all(isinstance(v, Accepted) for v in outcomes), outcomes
    return small_fleet


def asked(run, *words):
    code, out, err = run("query", *words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


# Limits of the error: mean of temp, share at most 20, variances and covariance of temp and humid,
# share of a condition. Epsilon 100 leaves next to no noise. The rest is the error of 4,096 cells,
# of 200 features of a wide kernel, and of histograms without any joint. It is the same at every
# run, within a fifth of its distance from the limit (chance 1e-6).
LIMITS = {
    "heavy": (0.5, 0.02, 20, 15, 0.03),
    "sums": (0.5, 0.2, 30, 15, 0.1),
    "bars": (0.1, 0.01, 5, 90, 0.12),
}


@pytest.mark.parametrize("stream", LIMITS)
def test_answers_are_near_the_truth(fleet, run, weather, stream):
    temp, humid, _ = weather.T
    mean, share, variance, covariance, part = LIMITS[stream]
    points = POINTS if stream != "heavy" else []
    words = ["--stream", stream, *points]
    assert abs(asked(run, *words, "mean", "temp")["value"] - temp.mean()) < mean
    assert abs(asked(run, *words, "cdf", "temp", "20")["value"] - np.mean(temp <= 20)) < share
    found = asked(run, *words, "covariance")
    assert (found["attributes"], found["units"]) == (["temp", "humid"], ["degC", ""])
    off = np.abs(np.array(found["value"]) - np.cov(temp, humid, bias=True))
    assert off.diagonal().max() < variance
    assert off[0, 1] == off[1, 0] < covariance
    assert np.array(found["standard_error"]).min() > 0
    found = asked(run, *words, "count", "temp > 20 & humid<50")
    assert abs(found["share"] - np.mean((temp > 20) & (humid < 50))) < part
    assert abs(found["value"] / READINGS - found["share"]) < 0.01
    found = asked(run, *words, "count", "wind", "=", "calm")
    assert abs(found["share"] - 0.5) < 0.05
    # The control: another part of the readings gives answers that these limits tell apart.
    assert abs(temp[temp > 15].mean() - temp.mean()) > mean


def test_boxes_of_cells_answer_quantiles_and_ranges(fleet, run, weather):
    temp = weather[:, 0]
    found = asked(run, "--stream", "heavy", "quantile", "temp", "0.9")
    assert abs(found["value"] - np.quantile(temp, 0.9)) < 2
    found = asked(run, "--stream", "heavy", "range", "temp", "10", "20", "wind", "south")
    inside = (temp >= 10) & (temp <= 20) & (weather[:, 2] == 2)
    assert abs(found["value"] - inside.sum()) < 0.02 * READINGS
    same = asked(run, "--stream", "heavy", "count", "temp>=10 & temp<=20 & wind=south")
    assert same["value"] == pytest.approx(found["value"], rel=1e-9)


@pytest.mark.parametrize(
    ("stream", "generator"), [("fine", "privhp"), ("heavy", "density"), ("sums", "m2m")]
)
def test_left_to_itself_the_generator_follows_the_sketch(filled, fleet, run, stream, generator):
    words = ["--stream", stream, *(POINTS if stream == "sums" else []), "mean", "temp"]
    assert asked(run, *words)["generator"] == generator
    assert asked(run, "--generator", "auto", *words)["value"] == asked(run, *words)["value"]


def test_one_hierarchy_two_generators(filled, run):
    """Three temperatures, a third of the readings each; the mean is 18 1/3, the variance 38.9."""
    for name in ("privhp", "kdtree"):
        words = ["--stream", "fine", "--generator", name]
        found = asked(run, *words, "mean", "temp")
        assert found["generator"] == name
        assert abs(found["value"] - 55 / 3) < 2
        assert abs(asked(run, *words, "covariance", "temp")["value"][0][0] - 350 / 9) < 15
        assert abs(asked(run, *words, "count", "temp > 22")["share"] - 1 / 3) < 0.02
        code, out, _ = run("sample", *words, "--rows", "500", "--out", "-")
        assert (code, out.count("\n")) == (0, 501)


def test_a_covariance_for_people_is_a_table(fleet, run):
    code, out, err = run("query", "--stream", "heavy", "covariance")
    assert (code, err) == (0, "")
    header, first, second, source = out.splitlines()
    assert header.split() == ["covariance", "temp", "(degC)", "humid"]
    assert first.startswith("temp (degC) ")
    assert first.count("±") == second.count("±") == 2
    assert first.split()[-3:] == second.split()[1:4]  # it is symmetric
    assert {len(line) for line in (header, first, second)} == {len(header)}
    paid = "epsilon 100 per reading (silent), 400 for one record in heavy, fine, sums and bars"
    assert source == f"4 releases of 2 devices, {paid} together"
    code, out, _ = run("query", "--stream", "heavy", "covariance", "humid")
    assert out.count("±") == 1


@pytest.mark.parametrize("stream", ["heavy", "sums", "bars"])
def test_synthetic_records_of_every_sketch(fleet, run, weather, stream):
    points = POINTS if stream != "heavy" else []
    words = ["sample", "--stream", stream, *points, "--rows", "5000", "--out", "-", "--seed", "1"]
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    header, *rows = csv.reader(io.StringIO(out))
    assert header == ["temp", "humid", "wind"]
    assert len(rows) == 5000
    assert {row[2] for row in rows} == set(WINDS)
    temp = np.array([float(row[0]) for row in rows])
    assert temp.min() >= -40
    assert temp.max() <= 60
    # Features spread the records, and leave their mean within a few degrees.
    assert abs(temp.mean() - weather[:, 0].mean()) < 6
    assert run(*words)[1] == out


def test_fewer_cells_leave_readings_out(fleet, run):
    """The heaviest of 4,096 cells alone: a box, so that every record lies in it."""
    words = ["--stream", "heavy", "--cells", "1", "--generator", "density"]
    code, out, _ = run("sample", *words, "--rows", "50", "--out", "-")
    assert code == 0
    temps = [float(line.split(",")[0]) for line in out.splitlines()[1:]]
    assert max(temps) - min(temps) <= 100 / 32
    assert asked(run, *words, "count", "temp < 61")["share"] == pytest.approx(1)


def test_feature_sums_of_different_sketches_are_not_mixed(fleet):
    sums, bars = (
        decode(fleet.release(stream=name, readings=[[20, 50, 0]]), fleet.specs(name)[0])
        for name in ("sums", "bars")
    )
    with pytest.raises(CommandError, match="do not add up: select windows of one") as caught:
        GENERATORS["m2m"].fit([sums, bars], GeneratorChoice(), None)
    assert caught.value.code == 2


def test_devices_of_all_classes_have_one_sketch_of_cells_and_of_moments(small_fleet):
    """Or the collector could not add up their releases."""
    for stream in ("heavy", "sums", "bars"):
        assert len(small_fleet.specs(stream)) == 1
    assert isinstance(small_fleet.specs("bars")[0], MomentsSpec)


def test_a_model_that_noise_has_emptied_is_a_failure_of_the_run(make_small_fleet, arrive):
    """More than ten of 60 noisy numbers of no readings are four deviations above zero with
    probability below 1e-11."""
    small_fleet = make_small_fleet(epsilon=0.001)
    days = range(1, 61)
    messages = [
        arrive(
            small_fleet.topic(stream="bars"),
            small_fleet.release("one", n, "bars", np.empty((0, 3))),
        )
        for n in days
    ]
    failures = []
    with store.opened(small_fleet.database) as opened:
        commit_batch(opened, messages, small_fleet.rules, 1_000_000_001)
    with reading(small_fleet.database) as reader:
        for n in days:
            try:
                found = build(
                    reader, small_fleet.config, Selection("bars", n * 86_400, (n + 1) * 86_400),
                    GeneratorChoice(points=1000),
                )  # fmt: skip
                assert found.fitted.readings.value > 0
            except CommandError as error:
                failures.append(error)
    assert len(failures) >= 50
    assert all(error.code == 1 and "noise outweighs" in str(error) for error in failures)


def test_every_generator_answers_what_its_model_can():
    for name, generator in GENERATORS.items():
        boxes = generator.fit.__annotations__["return"] is not M2MModel
        assert ("quantile" in generator.questions) == boxes, name
    assert sorted(GENERATORS) == sorted(READS)


BAD = [
    # a generator that does not suit the sketch
    ("query --stream heavy --generator privhp mean temp", "privhp reads sketches of type hierarch"),
    ("query --stream heavy --generator privhp mean temp", "heavy is of type cells: use --genera"),
    ("query --stream fine --generator m2m mean temp", "hierarchy: use --generator privhp or kd"),
    ("sample --stream sums --generator density --rows 1 --out -", "moments: use --generator m2m"),
    ("query --stream fine --generator median mean temp", "invalid choice: 'median'"),
    # a question that the sketch cannot answer
    ("query --stream sums quantile temp 0.5", "which answers mean, cdf, count, covariance, change"),
    ("query --stream sums quantile temp 0.5", "quantile needs one of type cells or hierarchy"),
    ("query --stream bars range temp 0 10", "stream bars has a sketch of type moments, which ans"),
    ("query --stream heavy distinct", "distinct is for a stream with a key"),
    # sizes
    ("query --stream fine --cells 9 mean temp", "--cells does not apply to privhp, which reads s"),
    ("query --stream sums --cells 9 mean temp", "--cells does not apply to m2m"),
    ("query --stream heavy --points 5000 mean temp", "--points does not apply to density"),
    ("query --stream heavy --cells 99999999 mean temp", "density: cells must lie between 1 and"),
    ("query --stream heavy --cells 0 mean temp", "'0' is not a whole number from 1"),
    ("query --stream sums --points 10 mean temp", "--points must lie between 1000 and 200000"),
    # attributes and conditions
    ("query --stream sums mean rain", "unknown attribute 'rain'; the stream has temp, humid, wind"),
    ("query --stream sums mean wind", "wind has categories: ask `count 'wind = calm'`"),
    ("query --stream sums --points 1000 cdf temp warm", "'warm' is not a number"),
    ("query --stream heavy covariance temp rain", "unknown attribute 'rain'; the stream has temp"),
    ("query --stream heavy covariance temp wind", "wind has categories"),
    ("query --stream heavy covariance temp temp", "temp is given twice"),
    ("query --stream heavy count", "write: query --stream STREAM count \"ATTRIBUTE > X & ATTRIB"),
    ("query --stream heavy count rain>5", "unknown attribute 'rain'; there is temp, humid, wind"),
    ("query --stream heavy count temp", "'temp' is not a comparison: write for example 'temp > 20"),
    ("query --stream heavy count temp>5&", "'' is not a comparison"),
    ("query --stream heavy count temp>5 | humid>9", "'temp>5 | humid>9' is not a comparison"),
    ("query --stream heavy count temp>warm", "temp: 'warm' is not a finite number"),
    ("query --stream heavy count temp=5", "temp is a number: compare it by <, <=, > or >="),
    ("query --stream heavy count wind=west", "wind has no category 'west': calm, north, east, sou"),
    ("query --stream heavy count wind>calm", "wind has categories: write wind = calm"),
    ("query --stream sums --points 1000 count temp>20&rain<5", "unknown attribute 'rain'"),
    ("query --stream sums --points 1000 count temp>>5", "is not a comparison"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "part"), BAD)
def test_wrong_input_is_a_single_line_with_the_alternatives(fleet, run, words, part):
    code, out, err = run(*words.split())
    assert (code, out) == (2, "")
    assert part in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
