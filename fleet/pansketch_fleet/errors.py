"""The only error of the configuration: a line with the place, the problem and the fix."""


class ConfigError(Exception):
    """`config.yaml:12: streams.air.window: problem; fix`, always one line.

    `file` as given, `line` from 1 (0: no line applies). `where`: the dotted path of the key (empty:
    the file as a whole). `problem`: with its fix.
    """

    def __init__(self, file: str, line: int, where: str, problem: str) -> None:
        self.file, self.line = one_line(file), line
        self.where, self.problem = one_line(where), one_line(problem)
        place = f"{self.file}:{line}" if line else self.file
        super().__init__(": ".join(part for part in (place, self.where, self.problem) if part))


def one_line(text: str) -> str:
    """Replace non-printable characters by spaces, so that no error has two lines."""
    return "".join(c if c.isprintable() else " " for c in text)
