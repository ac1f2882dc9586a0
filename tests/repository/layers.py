"""The layers as one table: packages, folder order, third parties, started programs, secrets.

The rules read the source of every module that is not a test; tests/repository/test_layers.py has
them checked, each with a negative control.
"""

import ast
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The packages that a package may import, besides itself. The library imports none of the others.
LAYERS = {
    "pansketch": set(),
    "pansketch_fleet": {"pansketch"},
    # The audit runs an agent beside another one.
    "pansketch_audit": {"pansketch", "pansketch_fleet", "pansketch_agent"},
    "pansketch_agent": {"pansketch", "pansketch_fleet"},
    "pansketch_collector": {"pansketch", "pansketch_fleet"},
    # Of the agent: what protects memory and files of a process that holds secrets.
    "pansketch_keeper": {"pansketch", "pansketch_fleet", "pansketch_agent"},
    "pansketch_cli": {"pansketch", "pansketch_fleet", "pansketch_audit"},
    "testbed": {
        "pansketch",
        "pansketch_fleet",
        "pansketch_agent",
        "pansketch_collector",
        "pansketch_keeper",
        "pansketch_cli",
    },
}
LAYERS["demo"] = {*LAYERS["testbed"], "testbed"}
LAYERS["benchmarks"] = {*LAYERS["demo"], "pansketch_audit", "demo"}
# The theorems speak of the code; their tests compare the two.
LAYERS["proofs"] = set()
# Folders of each package, lowest first: a folder imports those below it. "a|b": neither of them
# imports the other. ".": the package's own modules; "__main__": a program, above everything.
ORDER = {
    "pansketch": [
        ".",
        "randomness",
        "domain",
        "sketches",
        "sketches.distinct|sketches.moments",
        "blinding|planning",
        "wire",
        "generators",
        "generators.partition",
        "generators.density|generators.moments|generators.pairwise",
        "generators.kdtree_points|generators.periods",
        "generators.hierarchy",
        "generators.fidelity",
    ],
    "pansketch_fleet": [
        ".",
        "protocol|yaml",
        "settings",
        "mqtt|sections",
        "sections.sketches|sections.sources",
        "config",
    ],
    "pansketch_agent": [
        "host",
        "ledger|mqtt|outbox|sources",
        "control|delivery|sources.sensors|status|windows",
        "commands|diagnostics|runtime",
        "__main__",
    ],
    "pansketch_collector": [
        ".",
        "mqtt|validation",
        "storage.tables",
        "storage",
        "archive|asking|home_assistant|ingest|queries",
        "periods|scales",
        "http.server|reports",
        "http.endpoints",
        "http",
        "commands|http.__main__",
        "__main__",
    ],
    "pansketch_keeper": [".", "__main__"],
    "pansketch_audit": ["mechanisms|seizure", "coupling|empirical|exact", "planted_bugs", "."],
    "pansketch_cli": [".", "__main__"],
    "testbed": [
        ".|fuzz.harness|mutation|reference",
        "chaos.observation|debian|fleet_simulator|fuzz.targets",
        "chaos.environment|fuzz",
        "chaos.accounting|chaos.faults|debian.__main__|fleet_simulator.__main__|fuzz.__main__"
        "|mutation.__main__|reference.__main__",
        "chaos",
        "chaos.__main__",
    ],
    "demo": [".", "__main__"],
    "proofs": [".", "__main__"],
    "benchmarks": [
        "datasets|harness",
        "density|distinct|error_bars|hierarchy|kdtree|moments|performance|views",
        ".|http|papers|streams",
        "__main__",
    ],
}
# The only importers of a third-party package. Benchmarks measure anything.
ONLY_IN = {
    "paho": {
        "pansketch_agent.mqtt.client",
        "pansketch_agent.sources.mqtt_topic",
        "pansketch_collector.mqtt.client",
        "pansketch_collector.mqtt.paho_client",
        "pansketch_keeper.mqtt_client",
    },
    "msgpack": {"pansketch.wire"},
    "nacl": {"pansketch.blinding.sodium", "pansketch_fleet.protocol.signed_release"},
    "yaml": {"pansketch_fleet.yaml"},
    "msgspec": {
        "pansketch_fleet.protocol",
        "pansketch_fleet.sections",
        "pansketch_fleet.settings",
        "pansketch_agent.sources",
    },
    "sqlite3": {
        "pansketch_collector.asking",
        "pansketch_collector.commands",
        "pansketch_collector.http.server",
        "pansketch_collector.ingest",
        "pansketch_collector.scales",
        "pansketch_collector.storage",
        "pansketch_collector.validation",
        "pansketch_keeper.ledger",
        "testbed.chaos",
    },
    "fastapi": {"pansketch_collector.http"},
    "starlette": {"pansketch_collector.http"},
    "uvicorn": {"pansketch_collector.http"},
    "psycopg": {"pansketch_collector.storage"},
    "pyarrow": {"pansketch_collector.archive.day_files", "pansketch_collector.http.endpoints"},
    "ray": {"pansketch_collector.archive.archive_reader"},
    "rich": {"pansketch_collector.queries", "demo", "testbed"},
    "matplotlib": {"demo"},
    "secrets": {"pansketch_agent.ledger"},
    "amqtt": {"testbed"},
    "websockets": {"testbed"},
    "z3": {"proofs"},
    "cosmic_ray": {"testbed.mutation.mutants"},
    "parso": {"testbed.mutation.mutants"},
    "mpmath": {"pansketch_audit.exact.intervals"},
    "argparse_manpage": {"testbed.debian"},
    "shtab": {"testbed.debian"},
}
LIBRARY_NEVER = {
    "asyncio", "logging", "socket", "threading", "time", "random", "secrets", "subprocess",
}  # fmt: skip
# Which package starts which program, by `-m NAME` in a string.
STARTS = {
    "pansketch_audit": {"pansketch_agent", "pansketch_fleet.child_process"},
    "pansketch_collector": {"pansketch_collector.http"},
}
# Folders with public names in their `__init__`: tests/repository/test_public_names.py.
PUBLIC = {
    "pansketch", "pansketch.blinding", "pansketch.domain", "pansketch.generators",
    "pansketch.planning", "pansketch.randomness", "pansketch.sketches", "pansketch.wire",
}  # fmt: skip
MAX_MODULES = 12  # in a folder
MAX_INSTALLED = 390  # modules of all seven packages, without `__init__`
MAX_LINES = 300  # of a module, and of a test
AGENT_THIRD_PARTY = {"numpy", "paho", "msgpack", "yaml", "msgspec"}
# Which module calls what makes a secret or reads the clock; no other of its package does.
CALLED_IN = {
    "os_entropy": {
        "pansketch_agent": "pansketch_agent.__main__",
        "pansketch_collector": None,
        "pansketch_fleet": None,
        "pansketch_keeper": "pansketch_keeper.__main__",
    },
    "os.getrandom": {"pansketch": "pansketch.randomness.random_words"},
}
CLOCK_IN = {
    "pansketch_agent": "pansketch_agent.host.clock",
    "pansketch_collector": "pansketch_collector.clock",
}
# Functions that start a program which may outlive its starter; only `Child` uses them.
STARTERS = {
    "subprocess.Popen", "subprocess.run", "subprocess.call", "subprocess.check_call",
    "subprocess.check_output", "os.system", "os.fork", "os.posix_spawn", "os.popen",
    "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell",
}  # fmt: skip


def folder_of(package):
    """The folder of a package's source."""
    inner = ROOT / package.removeprefix("pansketch_") / package
    return inner if inner.is_dir() else ROOT / package


def modules():
    """(dotted name, file) of every module that is not a test."""
    for package in LAYERS:
        for file in sorted(folder_of(package).rglob("*.py")):
            inner = file.relative_to(folder_of(package)).with_suffix("").parts
            yield ".".join((package, *inner)).removesuffix(".__init__"), file


MODULES = dict(modules())


def folder(module):
    """The folder of a module; a program stands for itself."""
    if module.endswith(".__main__") or MODULES[module].name == "__init__.py":
        return module
    return module.rpartition(".")[0]


def imports_of(tree):
    """The full name of everything that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_of(name):
    """The module of ours that an imported name is or is in; None for what is not ours."""
    parts = name.split(".")
    heads = (".".join(parts[:i]) for i in range(len(parts), 0, -1))
    return next((head for head in heads if head in MODULES), None)


def height(package, found):
    """The layer of a folder in its package."""
    name = found.removeprefix(package).strip(".") or "."
    (level,) = [n for n, names in enumerate(ORDER[package]) if name in names.split("|")]
    return level


def violations(module, names):
    """Every imported name that a module may not import."""
    package = module.split(".")[0]
    for name in names:
        top, ours = name.split(".")[0], module_of(name)
        if ours is not None:
            if top != package and top not in LAYERS[package]:
                yield f"{module} imports {name}"
            elif top == package == "pansketch" and ours in PUBLIC:
                yield f"{module} imports {name}, which is for other packages"
            # The names of a whole package, or of a folder: of all that is in it.
            elif top == package and folder(ours) != folder(module):
                here, there = height(package, folder(module)), height(package, folder(ours))
                within = module in (package, *PUBLIC) and ours.startswith(f"{module}.")
                if ours != package and not within and there >= here:
                    yield f"{module} imports {name}, which is not below it"
        elif top in ("tests", *LAYERS):
            yield f"{module} imports {name}"
        allowed = ONLY_IN.get(top, {package}) | {"benchmarks"}
        if not any(f"{module}.".startswith(f"{place}.") for place in allowed):
            yield f"{module} imports {name}"
        if package == "pansketch" and top in LIBRARY_NEVER:
            yield f"{module} imports {name}"


def started(tree):
    """Every program that strings run with `-m` and that is a package of ours."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            words = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
            for option, name in pairwise(words):
                if option == "-m" and isinstance(name, str) and name.split(".")[0] in LAYERS:
                    yield name


def calls_of(tree):
    """Every function that is called, as (what stands before the last dot, name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            *before, name = ast.unparse(node.func).split(".")
            yield ".".join(before), name


def starts_of(source):
    """Every call of a source that starts a program which may outlive this one."""
    for node in ast.walk(ast.parse(source)):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called in STARTERS and "until_our_end" not in ast.unparse(node):
            yield called
