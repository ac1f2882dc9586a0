"""One target under atheris, which guides inputs by the lines and branches that they reach.

`python -m testbed.fuzz.atheris_run TARGET FOLDER -- FLAGS` runs until libFuzzer's flags end it, and
does not return; `python -m testbed.fuzz` starts it and reads its output.
"""

import sys
from pathlib import Path

PACKAGES = ["pansketch", "pansketch_fleet", "pansketch_agent", "pansketch_collector"]


def main(argv: list[str]) -> None:
    """`argv`: the program, a target's name, a folder for its files, "--", flags of libFuzzer."""
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    program, name, folder, _, *flags = argv
    with atheris.instrument_imports(include=PACKAGES):
        from testbed.fuzz.targets.registry import TARGETS
    from testbed.fuzz.harness.checks import Watch, watching

    with watching():
        watch = Watch(TARGETS[name], Path(folder))
        atheris.Setup([program, *flags], watch)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
