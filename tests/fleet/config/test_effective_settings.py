"""The output of print-config: every effective setting, its origin, and no secret."""

from pansketch_fleet.config.loader import Config, describe


def settings(config: Config) -> dict[str, tuple[str, str]]:
    described = describe(config)
    found = {setting.path: (setting.value_text, setting.origin) for setting in described}
    assert len(found) == len(described), "no setting is described twice"
    return found


def test_describe_names_values_and_origins(load_text, tmp_path, valid):
    (tmp_path / "word").write_text("hunter2")
    text = valid.replace("post-7", "${DEVICE}").replace(
        "    views", "    sketch: {k: 64}\n    views"
    )
    text = text.replace("1884", "1884\n  username: me\n  password: '${file:word}'")
    config = load_text(text, environ={"DEVICE": "post-9"})
    found, file = settings(config), str(tmp_path / "config.yaml")
    assert found["fleet"] == ("meadow", f"{file}:1")
    assert found["mqtt.password"] == ("***", "file word")
    assert found["agent.device"] == ("post-9", "environment DEVICE")
    assert found["agent.state"] == (str(tmp_path / "var/agent/post-9"), "default")
    assert found["profile.sketch_memory"] == ("256KiB", "profile pi-zero-2w")
    assert found["streams.air.window"] == ("10m", f"{file}:14")
    assert found["streams.air.source.speed"] == ("as fast as possible", "default")
    assert found["streams.air.sketch.k"] == ("64", f"{file}:24")
    assert found["streams.air.sketch.depth"] == ("20", "planned for pi-zero-2w")
    assert found["streams.air.expect.readings"] == ("10", "derived")
    assert found["streams.air.expect.devices"] == ("10", "default")
    assert found["streams.air.attributes.pm25.scale"] == ("log", f"{file}:21")
    assert found["streams.air.views"] == ("[[pm25, temp]]", f"{file}:25")


def test_describe_hides_all_that_came_from_a_file(load_text, tmp_path, valid):
    (tmp_path / "word").write_text("hunter2")
    config = load_text(valid.replace("1884", "1884\n  username: '${file:word}'"))
    assert config.mqtt.username == "hunter2"
    assert settings(config)["mqtt.username"] == ("***", "file word")


def test_describe_loses_no_digits(load_text, valid):
    found = settings(load_text(valid.replace("high: 1000", "high: 1234567.25")))
    assert found["streams.air.attributes.pm25.high"][0] == "1234567.25"


def test_describe_shows_every_key_of_the_file_that_is_in_force(load_text, valid):
    """A key that is read and not described would be one that print-config keeps quiet about."""
    text = valid.replace("[[pm25, temp]]", "[[pm25, temp, wind]]")
    config = load_text(text)
    named = set(settings(config))
    containers = {key.rpartition(".")[0] for key in config.document.entries}
    leaves = {key for key in config.document.entries if "[" not in key} - containers
    assert {"streams.air.attributes.wind.categories", "streams.air.privacy.unit"} <= leaves
    assert leaves - named == set()
