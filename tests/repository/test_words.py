"""Pages, messages, help texts, docstrings and comments use the terms of the glossary."""

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.pages import FOLDERS

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs/reference/glossary.md"
GENERATED = {ROOT / "docs/reference" / name for name in ("cli.md", "configuration.md")}
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted({*(ROOT / "docs").rglob("*.md")} - {GLOSSARY} - GENERATED),
    *sorted((ROOT / "data").rglob("*.md")),
]
# Each line: the former phrases of one term.
FORMER = re.compile(
    r"\b(?:"
    r"(?:take|takes|taking|taken|took) in"  # ingest
    r"|on (?:its|their) way"  # in flight
    r"|(?:what|whatever) (?:waits|is waiting)"  # backlog
    r"|spoken|hand(?:ed|s|ing) over"  # acknowledged, PUBACK received
    r"|(?:send|sends|sent|sending) (?:it |them |these |that release )?(?:again|anew)|anew"
    r"|growing pauses?|patience|patiently"  # retransmit, backoff, timeout
    r"|(?:give|gives|gave|giving) up (?:its|their) (?:place|slot)s?"
    r"|(?:has|have|had) (?:its|their) turn|rests"  # yields its slot, is requeued
    r"|(?:hold|holds|holding|held) back"  # on hold
    r"|(?:set|sets|put|puts|setting|putting) (?:it |them )?aside"  # dead-lettered
    r"|goes? to quarantine"  # quarantined
    r"|(?:held|comes?|came) twice|held already|the same again"  # duplicate
    r"|hard bounds?"  # limit
    r"|(?:is|are|was|were|be|been|unless) told|say|says|said|saying|hear|hears|heard"
    r"|speaks? (?:no|MQTT)"  # receives, reports, publishes, supports
    r"|lets? (?:(?:it|the device|this device|a device) )?in|not let|(?:is|be) let in"
    r"|den(?:y|ies|ied)"  # accepts, rejects, not authorized
    r"|farewells?|the will(?! message)|birth(?! message)"  # graceful disconnect, last will
    r"|(?:is|are|was|were) (?:there(?! (?:is|was|no|a))|away)|(?:is|are|too far) apart"
    r"|the house|rooms|walls"  # the system, packages, layers
    r"|look(?:s|ed)? into|somebody|someone|anybody|whoever|nobody|everybody"  # an actor
    r"|whatever|(?:by|of|without) a word"  # any input
    r"|different keys"  # distinct keys
    r"|pays?|paid"  # spends
    r"|(?:what is|is|are|was) promised|promises?"  # privacy guarantee
    r"|places|(?:a|no) place"  # slots, index, position
    r"|(?:a|every|each|one|two|both) looks?"  # poll, scrape, refresh
    r"|signs? of life"  # heartbeat
    r"|made[- ]up|made them up"  # generated
    r"|garbage(?! collect)|vandals?"  # malformed messages, a hostile client
    r"|an account of|accounted for"  # reconciliation
    r"|(?:in|with|by) (?:one|a) (?:line|sentence)"  # a single-line error
    r"|(?:by|of) (?:itself|themselves)|in vain|all the same"  # mostly deleted
    r")\b",
    re.IGNORECASE,
)
# Strings that hold such a word and are no text for people.
NO_PROSE = {
    "collector/pansketch_collector/reports/device_health.py": "columns by the names of the message",
    "collector/pansketch_collector/home_assistant/payloads.py": "templates of Home Assistant",
}
# Folders of the library, whose tests have the same names.
LIBRARY = (
    "blinding",
    "domain",
    "generators/density",
    "generators/hierarchy",
    "generators/kdtree_points",
    "generators/moments",
    "generators/partition",
    "generators/periods",
    "planning",
    "randomness",
    "sketches",
    "wire",
)
# Packages and tests whose docstrings and comments follow these rules and those of test_prose.py.
CLEAN = (
    "agent",
    "audit",
    "benchmarks/datasets",
    "benchmarks/density",
    "benchmarks/distinct",
    "benchmarks/error_bars",
    "benchmarks/harness",
    "benchmarks/hierarchy",
    "benchmarks/http",
    "benchmarks/kdtree",
    "benchmarks/moments",
    "benchmarks/papers",
    "benchmarks/performance",
    "benchmarks/views",
    "cli",
    "collector",
    "demo",
    "fleet",
    "keeper",
    "proofs",
    "testbed",
    "tests/agent",
    "tests/audit",
    "tests/cli",
    "tests/collector",
    "tests/demo",
    "tests/deploy",
    "tests/fleet",
    "tests/keeper",
    "tests/proofs",
    "tests/repository",
    "tests/system",
    "tests/testbed",
    *(f"pansketch/{folder}" for folder in LIBRARY),
    *(f"tests/pansketch/{folder}" for folder in LIBRARY),
)


def former_words(text: str) -> list[str]:
    """The former phrases in prose: code and the targets of links are quoted as they are."""
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.S)
    return [match[0] for match in FORMER.finditer(prose)]


def messages(source: str) -> list[str]:
    """Texts of more than one word, such as logs, errors and help, without docstrings."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if " " in node.value and id(node) not in docstrings
    ]


def docstrings(source: str) -> Iterator[str]:
    """The docstrings of a module, its classes and its functions, without their indentation."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(ast.Constant(str() as text)):
                yield inspect.cleandoc(text)


def comments(source: str) -> Iterator[str]:
    """The comments of a module; lines of one column that follow each other are one comment."""
    lines: list[str] = []
    last = 0, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        row, column = token.start
        if lines and last != (row - 1, column):
            yield "\n".join(lines)
            lines = []
        lines.append(token.string.lstrip("# "))
        last = row, column
    yield "\n".join(lines)


def joined(text: str) -> str:
    """A text without its line breaks, so that a phrase over two lines is found."""
    return " ".join(text.split())


def texts_of_code(folder: str) -> Iterator[tuple[str, str]]:
    """Module and text of every docstring and comment in a folder."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        source = file.read_text()
        for text in (*docstrings(source), *comments(source)):
            yield file.relative_to(ROOT).as_posix(), text


def former_messages(package: str) -> Iterator[tuple[str, str, str]]:
    """Module, phrase and text of every former phrase in the messages of a package."""
    for file in sorted((ROOT / package).rglob("*.py")):
        module = file.relative_to(ROOT).as_posix()
        for text in messages(file.read_text()):
            yield from ((module, match[0], text) for match in FORMER.finditer(text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_uses_the_terms_of_the_field(page):
    assert former_words(page.read_text()) == []


@pytest.mark.parametrize("package", FOLDERS)
def test_messages_use_the_terms_of_the_field(package):
    assert [found for found in former_messages(package) if found[0] not in NO_PROSE] == []


@pytest.mark.parametrize("folder", CLEAN)
def test_docstrings_and_comments_use_the_terms_of_the_field(folder):
    found = [(module, former_words(joined(text))) for module, text in texts_of_code(folder)]
    assert len(found) > 1
    assert [each for each in found if each[1]] == []


def test_exceptions_are_in_use():
    for path in NO_PROSE:
        assert path in {module for module, _, _ in former_messages("collector")}


def test_a_former_word_in_a_page_would_be_found():
    """Negative control, and what is quoted is left alone."""
    text = "What waits is sent anew.\n`is held back in the outbox`\n```\nsay\n```\n[x](a-look.md)"
    assert former_words(text) == ["What waits", "sent anew"]


def test_a_former_word_in_a_message_would_be_found():
    """Negative control, and docstrings and single words are left alone."""
    source = (
        '"""Says."""\nLOG.error("no broker at %s; trying until it is there", host)\n'
        'raise ValueError(f"{path}: what waits in {name}")\nwords = {"said": 1}\n'
    )
    found = [former for text in messages(source) for former in FORMER.findall(text)]
    assert found == ["is there", "what waits"]


def test_a_former_word_in_a_docstring_or_comment_would_be_found():
    """Negative control, and code and strings are left alone."""
    source = (
        '"""What waits is\\nsent anew."""\ndef send():\n    """Never `held back`."""\n'
        '    said = "says"  # nobody\n    # is held\n    # back\n'
    )
    texts = [joined(text) for text in (*docstrings(source), *comments(source))]
    assert texts == ["What waits is sent anew.", "Never `held back`.", "nobody", "is held back"]
    found = [former_words(text) for text in texts]
    assert found == [["What waits", "sent anew"], [], ["nobody"], ["held back"]]
