"""Fixtures of the library's tests that the audit's use as well."""

from tests.pansketch.conftest import known_noise, make_spec, weather

__all__ = ["known_noise", "make_spec", "weather"]
