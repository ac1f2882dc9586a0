"""The content of each Debian package, apart from its environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

FILES = "testbed/debian/files"
LOCKS = "testbed/debian/locks"  # exact versions with hashes, by `make locks`
SCRIPTS = ("preinst", "postinst", "prerm", "postrm")  # of FILES


@dataclass(frozen=True)
class Program:
    """One package. `check` and `init` are what its user runs on `config`."""

    name: str
    summary: str
    description: str
    lock: str
    config: str
    check: str
    init: str
    state: str
    modules: Mapping[str, str] = field(default_factory=dict)

    @property
    def package(self) -> str:
        return f"pansketch-{self.name}"

    @property
    def home(self) -> str:
        return f"/opt/{self.package}"

    @property
    def commands(self) -> Mapping[str, str]:
        """The module of each command."""
        return {self.package: f"pansketch_{self.name}", **self.modules}

    def fill(self, text: str) -> str:
        """A file of FILES with the words of this program in place of its marks."""
        words = {
            "@PACKAGE@": self.package,
            "@HOME@": self.home,
            "@CONFIG@": self.config,
            "@CHECK@": self.check,
            "@INIT@": self.init,
            "@STATE@": self.state,
            "@VARIABLES@": f"/etc/pansketch/{self.name}.env",
        }
        for mark, word in words.items():
            text = text.replace(mark, word)
        return text


PROGRAMS = {
    program.name: program
    for program in (
        Program(
            "agent",
            "private telemetry of small devices: the agent",
            "Turns a device's readings into private releases for its fleet's collector.\n"
            "Its sketches are differentially private at every instant.",
            lock="agent.txt",
            config="/etc/pansketch/config.yaml",
            check="validate",
            init="copy the fleet's",
            state="its ledger states what was released",
        ),
        Program(
            "collector",
            "private telemetry of small devices: the collector",
            "Merges the releases of a fleet, answers questions with error bars, and\n"
            "makes synthetic records.",
            lock="collector.txt",
            config="/etc/pansketch/collector.yaml",
            check="acl",
            init="copy the fleet's",
            state="it holds the fleet's releases",
            modules={"pansketch": "pansketch_cli"},
        ),
        Program(
            "keeper",
            "private telemetry of small devices: a keeper of blinded fleets",
            "Holds one key of a blinded fleet. It adds its noise to each answer once.",
            lock="agent.txt",
            config="/etc/pansketch/keeper.yaml",
            check="check",
            init="run pansketch-keeper init --help",
            state="its key opens the fleet's windows, its ledger forbids a second answer",
        ),
    )
}
