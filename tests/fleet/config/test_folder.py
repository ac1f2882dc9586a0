"""A folder whose files are one configuration."""

import pytest

from pansketch_fleet.config.loader import ConfigError, describe, load_agent, load_collector
from pansketch_fleet.yaml.document import MAX_FILES


@pytest.fixture
def folder(tmp_path, valid):
    """The valid configuration in three files, and what an editor leaves there."""
    head, tail = valid.split("collector:")
    common, streams = head.split("streams:")
    found = tmp_path / "conf.d"
    found.mkdir()
    (found / "air.csv").write_text("time,temp\n")
    for name, text in (
        ("10-fleet.yaml", common),
        ("20-air.yaml", "# Of the roof.\nstreams:" + streams),
        ("30-collector.yaml", "collector:" + tail),
        (".20-air.yaml.swp", "fleet: ["),
        (".hidden.yaml", "fleet: ["),
        ("20-air.yaml~", "fleet: ["),
        ("40-nothing.yaml", "# Later.\n"),
    ):
        (found / name).write_text(text)
    return found


def refused(folder, load=load_agent, **environ):
    with pytest.raises(ConfigError) as caught:
        load(folder, environ)
    return caught.value


def test_its_files_are_what_one_file_is(folder, load_text):
    one, several = load_text(), load_agent(folder, {})
    assert several.streams[0].spec == one.streams[0].spec
    assert several.streams[0].source.path == folder / "air.csv"
    assert several.agent.state == folder / "var/agent/post-7"
    assert load_collector(folder, {}).collector.database == folder / "kept/releases.sqlite"


def test_every_setting_names_its_file(folder):
    found = {each.path: each.origin for each in describe(load_agent(folder, {}))}
    assert found["fleet"] == f"{folder / '10-fleet.yaml'}:1"
    assert found["streams.air.window"] == f"{folder / '20-air.yaml'}:7"


def test_sections_of_one_name_are_joined(folder):
    (folder / "50-ground.yaml").write_text(
        (folder / "20-air.yaml").read_text().replace("  air:", "  ground:")
    )
    assert [each.name for each in load_agent(folder, {}).streams] == ["air", "ground"]
    (folder / "60-more.yaml").write_text("agent: {state: kept}\n")
    config = load_agent(folder, {})
    assert (config.agent.device, config.agent.state) == ("post-7", folder / "kept")


@pytest.mark.parametrize(
    ("text", "line", "where", "first"),
    [
        ("fleet: glade", 1, "fleet", "10-fleet.yaml:1"),
        ("\nagent: {device: other}", 2, "agent.device", "10-fleet.yaml:5"),
        ("agent: other", 1, "agent", "10-fleet.yaml:4"),
        ("streams: {air: {views: [[temp]]}}", 1, "streams.air.views", "20-air.yaml:17"),
        ("agent: {device: '${NAME}'}", 1, "agent.device", "10-fleet.yaml:5"),
        ("streams: {air: {window: '${NAME}'}}", 1, "streams.air.window", "20-air.yaml:7"),
    ],
)
@pytest.mark.parametrize("load", [load_agent, load_collector])
def test_a_value_that_two_files_state_is_refused(folder, text, line, where, first, load):
    (folder / "90-local.yaml").write_text(text)
    error = refused(folder, load)
    assert (error.file, error.line) == (str(folder / "90-local.yaml"), line)
    assert (error.where, error.problem) == (
        where,
        f"is repeated, first in {folder / first}; keep one of them",
    )


def test_a_number_that_is_not_known_here_is_refused_as_second_too(folder):
    """No program has a value of it, so only its place tells."""
    (folder / "20-air.yaml").write_text(
        (folder / "20-air.yaml").read_text().replace("epsilon: 0.5", "epsilon: ${E}")
    )
    (folder / "90-local.yaml").write_text("streams: {air: {privacy: {epsilon: 2}}}")
    assert refused(folder).where == "streams.air.privacy.epsilon"
    assert "20-air.yaml:9" in refused(folder).problem


@pytest.mark.parametrize(
    ("text", "line", "where", "says"),
    [
        ("streams: {air: {windwo: 1h}}", 1, "streams.air.windwo", "did you mean window?"),
        ("groups: [", 1, "", ""),
        ("- air", 1, "", "is not a mapping"),
        ("mqtt: {username: '${NAME}'}", 1, "mqtt.username", "NAME"),
    ],
)
def test_an_error_names_the_file_at_fault(folder, text, line, where, says):
    (folder / "90-local.yaml").write_text(text)
    error = refused(folder)
    assert (error.file, error.line) == (str(folder / "90-local.yaml"), line)
    assert (error.where, says in error.problem) == (where, True)


def test_what_no_file_states_is_missing_from_the_folder(folder):
    (folder / "10-fleet.yaml").unlink()
    error = refused(folder)
    assert (error.file, error.line) == (str(folder), 0)


def test_several_references_without_a_value_name_their_files(folder):
    (folder / "90-local.yaml").write_text("mqtt: {username: '${NAME}', password: '${WORD}'}")
    assert f"mqtt.password ({folder / '90-local.yaml'}:1)" in refused(folder).problem


def test_a_file_with_the_other_suffix_of_yaml_is_refused(folder):
    """No program would read it, and the operator would not notice."""
    (folder / "60-more.yml").write_text("agent: {state: kept}\n")
    error = refused(folder)
    assert (error.file, error.line) == (str(folder / "60-more.yml"), 0)
    assert error.problem == "is not read; rename it to 60-more.yaml, or to .60-more.yml"


def test_a_folder_without_files_and_one_with_too_many_are_refused(tmp_path):
    assert "has no file *.yaml" in refused(tmp_path).problem
    for number in range(MAX_FILES + 1):
        (tmp_path / f"{number}.yaml").touch()
    assert f"above {MAX_FILES}" in refused(tmp_path).problem
    (tmp_path / "0.yaml").unlink()
    assert "is empty" in refused(tmp_path).problem
