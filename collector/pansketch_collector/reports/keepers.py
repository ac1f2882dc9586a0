"""`keepers`: open questions to each keeper, its last answers, and releases that none answers
about."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pansketch_collector.storage.reader import Reader
from pansketch_collector.storage.tables.records import EXCLUDED
from pansketch_fleet.config.loader import Config
from pansketch_fleet.text_table import aligned
from pansketch_fleet.units import utc_text

KEEPERS = ("keeper", "state", "since", "asked", "oldest", "last answer", "")
LEVELS = ("stream", "level", "answers", "asked", "rejected", "waiting", "excluded", "lost")
NUMBERS = frozenset({"asked", *LEVELS[2:]})
UNKNOWN = "unknown"


@dataclass(frozen=True)
class KeeperReport:
    """One keeper. Times are unix seconds, None for never.

    `asked`: questions without its answer, the first of them at `oldest_asked_at`. `problem`: the
    reported problem with one of them.
    """

    keeper: str
    state: str
    since: int | None
    asked: int
    oldest_asked_at: int | None
    last_answer_at: int | None
    problem: str


@dataclass(frozen=True)
class LevelReport:
    """One level of a stream.

    `answered`, `asked`, `set_aside`: numbers of questions. `waiting`, `excluded`, `lost`: numbers
    of releases without a question. `problems`: the reasons of rejected questions and lost releases.
    """

    stream: str
    level: str
    answered: int
    asked: int
    set_aside: int
    waiting: int
    excluded: int
    lost: int
    problems: tuple[str, ...]


@dataclass(frozen=True)
class AskingReport:
    """The keepers and levels of the configuration, and those of stored questions."""

    keepers: tuple[KeeperReport, ...] = ()
    levels: tuple[LevelReport, ...] = ()


def asking_report(reader: Reader, config: Config) -> AskingReport:
    """The state of all questions in the database. Raises one of ERRORS."""
    db = reader.connection
    received = {row[0]: row[1:] for row in db.execute("SELECT keeper, state, since FROM keepers")}
    asked = {
        row[0]: row[1:]
        for row in db.execute(
            "SELECT keeper, count(*) FILTER (WHERE is_open), min(asked_at) FILTER (WHERE is_open),"
            " max(answered_at), coalesce(max(problem) FILTER (WHERE is_open), '') FROM"
            " (SELECT a.keeper, a.answered_at, a.problem, q.asked_at,"
            " (q.state = 'prepare' AND a.state = 'asked')"
            " OR (q.state = 'answer' AND a.state != 'answered') AS is_open"
            " FROM keeper_answers AS a JOIN questions AS q ON q.id = a.question)"
            " AS asked GROUP BY keeper"
        )
    }
    keepers = [
        KeeperReport(
            name, *received.get(name, (UNKNOWN, None)), *asked.get(name, (0, None, None, ""))
        )
        for name in dict.fromkeys([*config.keepers, *asked])
    ]
    return AskingReport(tuple(keepers), tuple(_levels(reader, config)))


def _levels(reader: Reader, config: Config) -> list[LevelReport]:
    db = reader.connection
    questions = {
        row[:2]: row[2:]
        for row in db.execute(
            "SELECT stream, level, count(*) FILTER (WHERE state = 'answered'),"
            " count(*) FILTER (WHERE state IN ('prepare', 'answer')),"
            " count(*) FILTER (WHERE state = 'failed') FROM questions GROUP BY stream, level"
        )
    }
    releases = {
        row[:2]: row[2:]
        for row in db.execute(
            f"SELECT stream, level, count(*) FILTER (WHERE problem = '' AND NOT {EXCLUDED}),"
            f" count(*) FILTER (WHERE problem = '' AND {EXCLUDED}),"
            " count(*) FILTER (WHERE problem != '')"
            " FROM window_levels WHERE question IS NULL GROUP BY stream, level"
        )
    }
    problems: dict[tuple[str, str], list[str]] = {}
    for stream, level, count, text in db.execute(
        "SELECT stream, level, windows, 'rejected: ' || problem FROM questions"
        " WHERE state = 'failed' UNION ALL SELECT stream, level, count(*), 'lost: ' || problem"
        " FROM window_levels WHERE question IS NULL AND problem != '' GROUP BY 1, 2, problem"
    ):
        windows = f"{count} window{'s' * (count != 1)}"
        problems.setdefault((stream, level), []).append(f"{windows} {text}")
    configured: list[tuple[str, str]] = [
        (stream.name, level.name)
        for stream in config.streams
        if stream.blinded is not None
        for level in stream.blinded.levels
    ]
    found = []
    for stream, level in dict.fromkeys([*configured, *questions, *releases]):
        name = stream, level
        answered, asked, rejected = questions.get(name, (0, 0, 0))
        waiting, excluded, lost = releases.get(name, (0, 0, 0))
        counts = answered, asked, rejected, waiting, excluded, lost
        found.append(LevelReport(stream, level, *counts, tuple(problems.get(name, ()))))
    return found


def as_table(found: AskingReport) -> str:
    """A line for each keeper, one for each level, and one for each problem."""
    if not found.keepers:
        return "the configuration names no keepers"
    rows = [
        (
            each.keeper,
            each.state,
            _when(each.since),
            str(each.asked),
            _when(each.oldest_asked_at),
            _when(each.last_answer_at),
            each.problem,
        )
        for each in found.keepers
    ]
    lines = [*aligned(KEEPERS, rows, NUMBERS)]
    levels = [(each.stream, each.level, *(str(n) for n in _counts(each))) for each in found.levels]
    if levels:
        lines += ["", *aligned(LEVELS, levels, NUMBERS)]
    lines += [
        f"{each.stream} {each.level}: {problem}"
        for each in found.levels
        for problem in each.problems
    ]
    return "\n".join(lines)


def _counts(each: LevelReport) -> Sequence[int]:
    questions = each.answered, each.asked, each.set_aside
    return *questions, each.waiting, each.excluded, each.lost


def _when(seconds: int | None) -> str:
    return "-" if seconds is None else utc_text(seconds)


def as_object(found: AskingReport) -> dict[str, object]:
    """`keepers` and `levels`, lists; times as text, null for never."""
    return {
        "keepers": [
            asdict(each)
            | {
                name: None if at is None else utc_text(at)
                for name, at in (
                    ("since", each.since),
                    ("oldest_asked_at", each.oldest_asked_at),
                    ("last_answer_at", each.last_answer_at),
                )
            }
            for each in found.keepers
        ],
        "levels": [asdict(each) for each in found.levels],
    }


def as_json(found: AskingReport) -> str:
    """`as_object` on one line."""
    return json.dumps(as_object(found))
