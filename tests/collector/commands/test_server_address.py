"""Database addresses: of servers, and those that may contain a password."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from pansketch_fleet.config.loader import ConfigError


@pytest.mark.parametrize(
    ("database", "password", "problem"),
    [
        *(
            (f"postgres{rest}", None, "collector.database_password")
            for rest in (
                "ql://one:secret@host/fleet",
                "ql://one:secret@host,other/fleet",
                "ql://one:12/secret@host/fleet",
                "ql://one:@secret@host/fleet",
                "ql://one%3Asecret@host/fleet",
                "ql://:secret@host/fleet",
                "ql://one@host/fleet?password=secret",
                "ql://one@host/fleet?PASSWORD=secret",
                "ql://one@host/fleet?%70assword=secret",
                "ql://one@host/fleet?sslmode=require&amp;password=secret",
                "ql://one@host/fleet?sslmode=require&sslpassword=secret",
                "ql://one@host/fleet?sslmode=require;password=secret",
                "ql://one@host/fleet?application_name=x%26password=x password=secret",
                "ql://one@host/fleet#secret",
                "ql://one@host/fleet?options=-csecret",
                "ql+psycopg://one:secret@host/fleet",
                "ql:one:secret@host/fleet",
                "://one:secret@host/fleet",
                "://one@host/fleet",
                "ql://one@host",
                "ql://one@host/",
            )
        ),
        ("postgresql://one@host/fleet", "", "is empty"),
        ("fleet.sqlite", "secret", "has no effect for a file"),
    ],
)
def test_wrong_settings_are_refused_without_the_password(
    make_small_fleet, database, password, problem
):
    fleet = make_small_fleet()
    own = "" if password is None else f', database_password: "{password}"'
    text = fleet.path.read_text(encoding="utf-8")
    fleet.path.write_text(
        text.replace('database: "var/collector.sqlite"', f'database: "{database}"{own}'),
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match=problem) as caught:
        _ = fleet.config
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "database",
    [
        "postgresql://one@db.example:5432/fleet?sslmode=verify-full&sslrootcert=/etc/ssl/ca.pem",
        "postgresql:///fleet",
        "postgresql://one@/fleet?host=/run/postgresql",
        "postgresql://one%40tenant@[2001:db8::1]:5432/fleet",
        "postgresql://one@a.example:5432,b.example:5433/fleet?target_session_attrs=read-write",
    ],
)
def test_addresses_that_libpq_reads_are_taken_and_read_the_same(make_small_fleet, database):
    fleet = make_small_fleet()
    text = fleet.path.read_text(encoding="utf-8")
    fleet.path.write_text(text.replace("var/collector.sqlite", database), encoding="utf-8")
    assert str(fleet.config.collector.database) == database
    assert conninfo_to_dict(database)["dbname"] == "fleet"
