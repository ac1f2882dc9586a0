"""`pansketch plan`: the sizes of a configuration's sketches, or the memory of distinct counting."""

import argparse
import os
import sys

from command import config_plan
from fleet.config import load
from fleet.errors import ConfigError
from fleet.profiles import known, load_profile
from pansketch import plan_table, plan_text

KEY_OPTIONS = ("alpha", "beta", "epsilon", "memory", "universe", "expected_keys")
DEFAULT_EPSILONS = (0.2, 0.5, 1.0)


def add_plan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the subcommand to the parser's."""
    plan = commands.add_parser(
        "plan",
        help="views and sizes of a configuration's sketches with their predicted errors; or the "
        "memory that distinct counting needs",
        description="With --config: for each stream the views and sizes that are planned, bytes, "
        "shares of epsilon, predicted errors, and what more or less memory or epsilon would "
        "change. Without: how many keys must be tracked, and in how many bytes, so that the share "
        "of keys seen is off by more than ALPHA with probability at most BETA; and what a given "
        "memory reaches. For Dwork's estimator, OptBern and PPDS, as published and repaired.",
    )
    plan.add_argument("--config", metavar="FILE", help="a fleet's configuration")
    plan.add_argument(
        "--profile", choices=known(), help="with --config: the class of device (the file's)"
    )
    plan.add_argument("--alpha", type=float, help="largest error (0.05)")
    plan.add_argument("--beta", type=float, help="how often beyond it (0.05)")
    plan.add_argument(
        "--epsilon",
        type=float,
        nargs="+",
        help="of the state and of the output each; a key pays both (0.2 0.5 1)",
    )
    plan.add_argument("--memory", type=int, metavar="BYTES", help="(4096)")
    keys = plan.add_mutually_exclusive_group()
    keys.add_argument("--universe", type=int, metavar="KEYS", help="keys are numbered below this")
    keys.add_argument(
        "--expected-keys", type=int, metavar="KEYS", help="keys are any texts; so many in a window"
    )
    plan.add_argument("--json", action="store_true", help="the tables as one JSON object")
    plan.set_defaults(run=_plan)


def _plan(options: argparse.Namespace) -> int:
    if options.config is not None:
        return _plan_config(options)
    if options.profile is not None:
        return _refuse("--profile goes with --config; add it")
    return _plan_keys(options)


def _plan_config(options: argparse.Namespace) -> int:
    given = [name for name in KEY_OPTIONS if getattr(options, name) is not None]
    if given:
        name = given[0].replace("_", "-")
        return _refuse(f"--{name} does not go with --config, which states it; leave one out")
    try:
        # As the collector sees it: sources and secrets of a device need not be here.
        config = load(options.config, "collector", os.environ)
        profile = load_profile(options.profile) if options.profile else config.profile
        found = config_plan.outlooks(config, profile)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    text = config_plan.as_json if options.json else config_plan.as_text
    print(text(profile, found))
    return 0


def _plan_keys(options: argparse.Namespace) -> int:
    wanted = plan_table.Wanted(
        0.05 if options.alpha is None else options.alpha,
        0.05 if options.beta is None else options.beta,
        tuple(options.epsilon or DEFAULT_EPSILONS),
        4096 if options.memory is None else options.memory,
        options.universe,
        options.expected_keys,
    )
    try:
        answers = plan_table.lines(wanted)
    except ValueError as error:
        return _refuse(str(error))
    text = plan_text.as_json if options.json else plan_text.as_text
    print(text(wanted, answers))
    return 0


def _refuse(problem: str) -> int:
    print(f"pansketch: plan: {problem}", file=sys.stderr)
    return 2
