"""The collector's inputs from people: exported files, questions, dates, and command lines."""

import base64
import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from weakref import finalize

import numpy as np

from pansketch import Attribute, Domain
from pansketch.generators import Partition, parse_predicate
from pansketch_agent.commands.command_line import parser as agent_parser
from pansketch_collector.commands.command_line import parser as collector_parser
from pansketch_collector.commands.release_files import replay, summary
from pansketch_collector.errors import CommandError
from pansketch_collector.queries import questions as query
from pansketch_collector.queries.fleet_model import Model
from pansketch_collector.queries.selection import when
from pansketch_collector.storage.database import open_writing
from pansketch_collector.storage.writer import SqliteStore
from pansketch_collector.validation.validation import Rules
from pansketch_fleet.config.loader import load_collector
from pansketch_fleet.protocol import topics
from testbed.fuzz.harness.target import EXAMPLE, Bound, Run, Target, require
from testbed.fuzz.targets.releases import PLAIN, made, own_seeds, specs

DOMAIN = Domain([Attribute("temp", -40, 60), Attribute("wind", categories=("N", "NE", "ö"))])
ROWS = np.array([[-40.0, 0.0], [0.0, 1.0], [60.0, 2.0]])
CONDITIONS = (
    b"temp>20", b"temp > 20 & wind = NE", b"temp<=-1e3&temp>=.5", "wind=ö".encode(), b"wind<N",
    b"temp=3", b"a>b", b"&", b"temp>nan",
)  # fmt: skip
QUESTIONS = (
    b"count\0temp>20 & pm25<50", b"quantile\0temp\0.5", b"mean\0pm25", b"cdf\0temp\x0020",
    b"range\0temp\x000\x0020\0pm25\x000\x0050", b"covariance\0temp\0pm25", b"covariance",
)  # fmt: skip
DATES = (b"2016-01-31", b"2016-01-31T12:00+02:00", b"1451606400", b"0001-01-01T00:00+23:59")
WORDS = (
    b"a\0run\0--config\0x.yaml\0--drain\x005", b"a\0outbox\0export\0file", b"a\0sources\0--json",
    b"a\0check\0--root\0/x", b"c\0serve", b"c\0--config\0x\0query\0--stream\0air\0count\0temp>2",
    b"c\0sample\0--stream\0a\0--rows\x009\0--out\0-\0--seed\x001\0--from\x002016-01-01",
    b"c\0export\0--stream\0a\0--out\0f", b"c\0replay\0f", b"c\0devices\0--json",
)  # fmt: skip


def _open_condition(_folder: Path) -> Run:
    return _condition


def _condition(data: bytes) -> None:
    """A parsed question can be answered from rows and from boxes."""
    found = parse_predicate(data.decode("utf-8", "replace"), DOMAIN)
    held = found.holds(ROWS)
    require(held.shape == (len(ROWS),), "a condition does not answer for every row")
    for low, high in found.intervals(DOMAIN).values():
        require(0 <= low <= 1 and 0 <= high <= 1, "an interval beyond the unit interval")


def _model() -> Model:
    """Four boxes; a redraw of their noise, which is zero, returns the same boxes."""
    release = made(specs()[0], 40)
    low = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [0.5, 0.5]])
    boxes = Partition(PLAIN, low, low + 0.5, np.arange(1.0, 5.0))
    fitted = replace(boxes, replicate=lambda: [boxes, boxes])
    guarantee = release.spec.guarantee
    return Model(
        generator="privhp", windows=1, devices=1, span=(0, 1), guarantee=guarantee, fitted=fitted
    )


def _open_question(_folder: Path) -> Run:
    model = _model()
    return lambda data: _question(data, model)


def _question(data: bytes, model: Model) -> None:
    """A zero byte between the words."""
    name, *words = data.decode("utf-8", "replace").split("\0")
    if name in query.QUESTIONS:
        query.check_words(name, words)
        query.answer(model, name, words)


def _open_date(_folder: Path) -> Run:
    return lambda data: _date(data.decode("utf-8", "replace"))


def _date(text: str) -> None:
    seconds = when(text)
    require(type(seconds) is int and seconds >= 0, "a date that is no time")


def _open_export(folder: Path) -> Run:
    rules = Rules.of(load_collector(EXAMPLE, {}))
    store = SqliteStore(open_writing(folder / "collector.sqlite"), 50)

    def run(data: bytes) -> None:
        _exported(data, folder / "file.jsonl", store, rules)

    finalize(run, store.close)  # Since Python 3.13 a database that is not closed raises a warning.
    return run


def _exported(data: bytes, path: Path, store: SqliteStore, rules: Rules) -> None:
    """Every line that is not blank is counted once."""
    path.write_bytes(data)
    counts = replay(path, store, rules, lambda: 1)
    lines = sum(1 for line in data.split(b"\n") if line.strip())
    require(sum(counts.values()) == lines, "a line is not counted, or twice")
    require(summary(path, counts).isprintable(), "a summary that is not one line")


def _exports() -> list[bytes]:
    topic = topics.release("beijing-air", "dongsi", "air")
    lines = [
        json.dumps({"topic": topic, "payload": base64.b64encode(data).decode()}).encode()
        for data in own_seeds()[:3]
    ]
    return [b"\n".join(lines) + b"\n", lines[0], b"[]\n{}\n\n1"]


def _open_words(_folder: Path) -> Run:
    return _words


def _words(data: bytes) -> None:
    """A letter for the program, then its arguments. An error is one line on stderr."""
    program, *words = data.decode("utf-8", "replace").split("\0")
    parser: Callable[[], object] = agent_parser if program == "a" else collector_parser
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            parser().parse_args(words)  # type: ignore[attr-defined]
        except SystemExit as leaving:
            status = leaving.code
        else:
            return
    said = err.getvalue().removesuffix("\n")
    require(status in (0, 2), "an exit code that is not documented")
    require(status == 0 or (said and said.isprintable()), "an error of several lines")
    require(len(said) < 2000, "an endless line")


BOXES = Bound(4 << 20, 2_000)
TARGETS = {
    "condition": Target(
        "the condition of a count", _open_condition, (ValueError,), lambda: CONDITIONS,
        tokens=(b"&", b"<", b">=", b"=", b"temp", b"wind", b"NE", b"1e999", b"nan", b"_", b"\n"),
    ),
    "question": Target(
        "a question to the fleet", _open_question, (CommandError,), lambda: QUESTIONS,
        memory=BOXES, steps=Bound(200_000, 20_000),
        tokens=(b"\0", b"temp", b"pm25", b"1e308", b"-1e308", b"inf", b"nan", b"\0.5", b"&", b">"),
    ),
    "date": Target(
        "a date on the command line", _open_date, (CommandError,), lambda: DATES,
        tokens=(b"T", b"+23:59", b"-", b":", b"Z", b"0001", b"9999-12-31", "٣".encode(), b"W01"),
    ),
    "export": Target(
        "an exported file that is replayed", _open_export, (CommandError,), _exports,
        memory=Bound(4 << 20, 200), steps=Bound(100_000, 2_000),
        tokens=(b"\n", b'"topic"', b'"payload"', b"null", b"[" * 999, b"9" * 5000, b"\\ud800"),
    ),
    "words": Target(
        "the words after both programs' names", _open_words, (), lambda: WORDS,
        memory=Bound(4 << 20, 2_000), steps=Bound(400_000, 20_000),
        tokens=(b"\0", b"--", b"--config", b"=", b"\n", b"-", b"--help", b"@", b"9" * 5000, b"%"),
    ),
}  # fmt: skip
