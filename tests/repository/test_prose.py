"""The shape of prose: readers first, short sentences, no noun clause as one, linked terms."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.test_words import CLEAN, texts_of_code

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs/reference/glossary.md"
GENERATED = {ROOT / "docs/reference" / name for name in ("cli.md", "configuration.md")}
PAGES = sorted({*(ROOT / "docs").rglob("*.md")} - GENERATED)
ALL = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
MAX_WORDS = 25
# Terms of the glossary without a second meaning in prose, and their anchors there.
TERMS = {
    "release": r"releases?",
    "window": r"windows?",
    "sketch": r"sketch(?:es)?",
    "spec": r"specs?",
    "fingerprint": r"fingerprints?",
    "generator": r"generators?",
    "pan-private": r"pan-private",
    "intrusion": r"intrusions?",
    "ledger": r"ledgers?",
    "debit": r"debits?",
    "incarnation": r"incarnation",
    "outbox": r"outbox(?:es)?",
    "backlog": r"backlog",
    "in-flight": r"in[- ]flight",
    "puback": r"PUBACKs?",
    "acknowledgement": r"acknowledgements?",
    "dead-letter": r"dead[- ]letter(?:s|ed)?",
    "disputed": r"disputed",
    "quarantine": r"quarantine[ds]?",
    "epoch": r"epochs?",
    "birth-message": r"birth message|last will",
    "planted-bug": r"planted bugs?",
}
CODE = re.compile(r"^( *)```.*?^\1```|!\[[^\]]*\]\([^)]*\)", re.S | re.M)


def prose(text: str) -> str:
    """A page without blocks of code, pictures, headings and API listings."""
    return re.sub(r"^(?:#|:::).*$", "", CODE.sub("", text), flags=re.M)


def plain(text: str) -> str:
    """Prose without links, marks and code."""
    text = re.sub(r"`[^`]*`", "code", prose(text))
    return re.sub(r"\*\*", "", re.sub(r"\[([^\]]*)\]\([^)]*\)|<[^>]*>", r"\1", text))


def blocks(text: str) -> Iterator[str]:
    """Paragraphs, items of lists and cells of tables."""
    held: list[str] = []
    for line in [*plain(text).splitlines(), ""]:
        item = re.match(r"\s*(?:[-*]|\d+\.) (.*)", line)
        if item or not line.strip() or line.lstrip().startswith("|"):
            yield " ".join(held)
            held = []
        if line.lstrip().startswith("|"):
            yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", line))
        elif line.strip():
            held.append(item[1] if item else line.strip())
    yield " ".join(held)


def sentences(text: str) -> Iterator[str]:
    for block in blocks(text):
        yield from re.split(r"(?<=[.!?])(?<!et al\.)[)\"]*\s+", block)


def too_long(text: str) -> list[str]:
    """Sentences of more words than allowed."""
    return [
        sentence
        for sentence in sentences(text)
        if len([word for word in sentence.split() if re.search(r"\w", word)]) > MAX_WORDS
    ]


def noun_clauses(text: str) -> list[str]:
    """Sentences and headings that begin with a clause for a noun and are no question."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", text), re.M)
    clause = re.compile(r"(?:What|Whatever|Who|Whoever|That which|Whether|How|Where)\b(?!.*\?$)")
    return [one for one in (*headings, *sentences(text)) if clause.match(one.strip())]


def unlinked(text: str) -> list[str]:
    """Terms whose first use is outside of a link."""
    text = re.sub(r"\]\([^)]*\)", "\0", re.sub(r"`[^`]*`", "", prose(text)))
    links = [range(*found.span()) for found in re.finditer(r"\[[^\[\]\0]*\0", text)]
    found = {term: re.search(rf"\b(?:{words})\b", text, re.I) for term, words in TERMS.items()}
    return [
        term
        for term, first in found.items()
        if first and not any(first.start() in link for link in links)
    ]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_begins_with_its_readers_and_their_gain(page):
    _, first, *_ = page.read_text().split("\n\n")
    assert re.match(r"For [\w ]", first), first
    assert re.search(r"\bAfter\s+this\s+(?:page|record)\b", first), first


@pytest.mark.parametrize("page", ALL, ids=named)
def test_a_sentence_is_short(page):
    assert too_long(page.read_text()) == []


@pytest.mark.parametrize("page", ALL, ids=named)
def test_no_sentence_is_a_noun_clause(page):
    assert noun_clauses(page.read_text()) == []


@pytest.mark.parametrize("folder", CLEAN)
def test_a_sentence_of_code_is_short_and_no_noun_clause(folder):
    found = [
        (module, sentence)
        for module, text in texts_of_code(folder)
        for sentence in (*too_long(text), *noun_clauses(text))
    ]
    assert found == []


@pytest.mark.parametrize("page", [page for page in ALL if page != GLOSSARY], ids=named)
def test_the_first_use_of_a_term_is_a_link(page):
    assert unlinked(page.read_text()) == []


def test_every_term_is_in_the_glossary():
    text = GLOSSARY.read_text()
    assert [term for term in TERMS if f'<a id="{term}"></a>' not in text] == []


def test_long_sentences_and_noun_clauses_would_be_found():
    """Negative control: code and questions are left alone."""
    long = " ".join(["word"] * (MAX_WORDS + 1))
    text = f"# What it is\n\n{long}. Short one.\n\n* {long}\n\n| a | {long} |\n\n```\n{long}\n```\n"
    assert too_long(text) == [f"{long}.", long, long]
    assert noun_clauses(f"{text}\nWhat waits is sent. What is it?\n") == [
        "What it is",
        "What waits is sent.",
    ]


def test_a_term_without_a_link_would_be_found():
    """Negative control: headings, code and later uses are left alone."""
    text = "# Release\n\n`ledger` and [a ledger](x.md#outbox), then a ledger, in its window.\n"
    assert unlinked(text) == ["window"]
