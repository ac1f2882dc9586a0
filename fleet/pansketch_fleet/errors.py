"""The one error of the configuration: a line that says where, what, and what to do."""


class ConfigError(Exception):
    """`config.yaml:12: streams.air.window: problem; fix`, always one line.

    `file` as it was given, `line` from 1 (0: no line applies), `where` the dotted path of the key
    (empty: the file as a whole), `problem` with its fix.
    """

    def __init__(self, file: str, line: int, where: str, problem: str) -> None:
        self.file, self.line = one_line(file), line
        self.where, self.problem = one_line(where), one_line(problem)
        place = f"{self.file}:{line}" if line else self.file
        super().__init__(": ".join(part for part in (place, self.where, self.problem) if part))


def one_line(text: str) -> str:
    """The text with spaces for whatever is not printable, so that no error spans two lines."""
    return "".join(c if c.isprintable() else " " for c in text)
