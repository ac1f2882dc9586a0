"""The generated pages of docs/reference, and the JSON Schemas of config.yaml and keeper.yaml."""

import re
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from pansketch_fleet.config.loader import ConfigError, load_agent
from pansketch_fleet.sections.sketches.sketch import KINDS
from pansketch_fleet.settings.profiles import ProfileSection
from pansketch_fleet.settings.schema import FileSection
from pansketch_fleet.settings.section import described
from pansketch_fleet.settings.sketch_schema import SKETCHES
from pansketch_keeper.settings import EXAMPLE, KeeperFileSection
from testbed.reference import command_line
from testbed.reference.__main__ import FIX, FOLDER, files, main, outdated
from testbed.reference.json_schema import keeper_schema, key_schema, plain, schema

ROOT = Path(__file__).parents[2]
SCHEMA = jsonschema.Draft202012Validator(schema())
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = {
    "config.yaml": (ROOT / "config.yaml").read_text(),
    **{
        f"{page.name}-{number}": body
        for page in PAGES
        for number, body in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.S))
    },
}


def sections(kind, seen=None):
    """A section and all inside it."""
    seen = [] if seen is None else seen
    if kind not in seen:
        seen.append(kind)
        for field in described(kind):
            for held in field.key.inner:
                sections(held, seen)
    return seen


ALL = [*sections(FileSection), *sections(ProfileSection), KeeperFileSection]
KEYS = [pytest.param(f, id=f"{kind.__name__}.{f.name}") for kind in ALL for f in described(kind)]


def test_generated_files_are_up_to_date():
    assert outdated(FOLDER) == []
    assert main(["--check"]) == 0


def test_an_outdated_file_is_named_with_the_fix(tmp_path):
    """Negative control."""
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    assert outdated(tmp_path) == []
    (tmp_path / "configuration.md").write_text("# Configuration\n")
    (tmp_path / "config.schema.json").unlink()
    found = outdated(tmp_path)
    assert [line.split(" ")[0] for line in found] == [
        "docs/reference/configuration.md",
        "docs/reference/config.schema.json",
    ]
    assert all(line.endswith(FIX) for line in found)


@pytest.mark.parametrize("field", KEYS)
def test_a_key_states_its_meaning_default_and_an_example_of_its_type(field):
    assert field.key.meaning.endswith(".")
    assert field.required or field.default is not None or field.key.default
    assert field.key.example or field.key.named
    if field.key.example:
        example = yaml.safe_load(field.key.example)
        found = jsonschema.Draft202012Validator(key_schema(field))
        if not field.key.holds:
            assert list(found.iter_errors(example)) == []
        assert list(found.iter_errors([[[example]]])) != []


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_section_has_a_description_of_its_own(kind):
    assert kind.__doc__
    assert all(line == line.strip() or line.startswith("    ") for line in kind.__doc__.split("\n"))


def test_every_kind_of_sketch_has_keys():
    assert SKETCHES.keys() == KINDS.keys()


def test_every_command_and_argument_is_described():
    for program, (make, _) in command_line.PROGRAMS.items():
        for name, (what, parser) in command_line.subcommands(make()).items():
            assert what, name
            assert parser.description, name
            assert all(action.help for action in parser._actions), (program, name)


def test_pages_that_explain_a_command_are_for_commands():
    names = {
        f"{program} {name}"
        for program, (make, _) in command_line.PROGRAMS.items()
        for name in command_line.subcommands(make())
    }
    assert command_line.SEE.keys() <= names


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
def test_the_schema_accepts_every_example(text):
    assert [error.message for error in SCHEMA.iter_errors(yaml.safe_load(text))] == []


def test_the_schema_of_a_keeper_accepts_what_init_writes_and_refuses_the_rest():
    found = jsonschema.Draft202012Validator(keeper_schema())
    text = EXAMPLE.format(fleet="meadow", name="tower", url='"mqtt://b"', state="here")
    assert list(found.iter_errors(yaml.safe_load(text))) == []
    for wrong in (
        text + "colour: red\n",
        text.replace("mqtt://b", "b"),
        text.replace("name:", "nam:"),
    ):
        assert list(found.iter_errors(yaml.safe_load(wrong))) != []


NAMED = (("streams",), ("attributes",), ("registers",), ("paths",), ("sensors",), ("metrics",))


def places(value, path=()):
    """Every mapping of a document with keys of its own: those with names for keys are left out."""
    if isinstance(value, dict):
        if path[-1:] not in NAMED:
            yield path
        for key, inner in value.items():
            if path[-1:] not in NAMED[3:]:
                yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


def at(value, path):
    for step in path:
        value = value[step]
    return value


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
def test_the_schema_refuses_an_unknown_key_in_every_section_of_every_example(text):
    for path in places(yaml.safe_load(text)):
        document = yaml.safe_load(text)
        at(document, path)["colour"] = "red"
        assert list(SCHEMA.iter_errors(document)) != [], path


BASE = """
fleet: f
mqtt: {url: "mqtt://b"}
agent: {device: d}
streams:
  s:
    source: {type: stdin}
    window: 1h
    privacy: {epsilon: 1}
    attributes: {temp: {low: 0, high: 1}}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("window: 1h", "window: 1 hour"),
        ("window: 1h", "window: 3600"),
        ("epsilon: 1", "epsilon: 0"),
        ("epsilon: 1", "epsilon: 101"),
        ("epsilon: 1", "epsilon: one"),
        ("epsilon: 1", "epsilon: 1, intrusion: loud"),
        ("type: stdin", "type: keyboard"),
        ("type: stdin", "type: stdin, path: a.csv"),
        ("device: d", "device: D"),
        ("device: d", "device: [d]"),
        ("mqtt://b", "http://b"),
        ("fleet: f", "fleets: f"),
        ("    window: 1h\n", ""),
        ("high: 1", "high: 1, categories: a"),
        ("attributes: ", "sketches: [{type: hierarchy, bins: 3}]\n    attributes: "),
        ("attributes: ", "sketches: [{type: moments, m: 1}]\n    attributes: "),
        ("attributes: ", "expect: {readings: 0}\n    attributes: "),
    ],
)
def test_the_schema_refuses_what_the_programs_refuse(old, new, tmp_path):
    assert list(SCHEMA.iter_errors(yaml.safe_load(BASE))) == []
    assert old in BASE
    text = BASE.replace(old, new)
    assert list(SCHEMA.iter_errors(yaml.safe_load(text))) != []
    (tmp_path / "config.yaml").write_text(BASE)
    assert load_agent(tmp_path / "config.yaml", {}).streams
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigError):
        load_agent(tmp_path / "config.yaml", {})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("device: d", "device: 007"),
        ("device: d", "device: '${DEVICE}'"),
        ("epsilon: 1", "epsilon: '${EPSILON}'"),
        ("window: 1h", "window: '${WINDOW:-1h}'"),
        ('"mqtt://b"', '"mqtt://b", protocol: 5'),
        ("high: 1", "high: 1, unit: NO"),
        ("agent: {device: d}", "agent:"),
    ],
)
def test_the_schema_accepts_references_and_texts_that_look_like_something_else(old, new):
    assert old in BASE
    assert list(SCHEMA.iter_errors(yaml.safe_load(BASE.replace(old, new)))) == []


def test_descriptions_of_the_schema_are_plain():
    assert plain("See [sources](sources.md), `a` and [b](c#d).") == "See sources, a and b."
    assert "](" not in msgspec.json.encode(schema()).decode()
