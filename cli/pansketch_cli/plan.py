"""`pansketch plan`: the sizes of a configuration's sketches, or the memory of distinct counting."""

import argparse
import os
import sys

from pansketch.planning import DistinctWanted, distinct_plans
from pansketch_cli import plan_report
from pansketch_fleet.config.loader import load_reader
from pansketch_fleet.errors import ConfigError, SingleLineParser
from pansketch_fleet.settings.profiles import known, load_profile

KEY_OPTIONS = ("alpha", "beta", "epsilon", "memory", "universe", "expected_keys", "any_number")
DEFAULT_EPSILONS = (0.2, 0.5, 1.0)


def add_plan(commands: "argparse._SubParsersAction[SingleLineParser]") -> None:
    """Add the subcommand to the parser's."""
    plan = commands.add_parser(
        "plan",
        help="show the planned sketches of a configuration, or the memory of distinct counting",
        description="With --config: shows views, sizes, bytes, shares of epsilon and predicted "
        "errors of each stream, and the effect of more or less memory or epsilon. Without "
        "--config: shows the tracked keys and the bytes that keep the error of the share of keys "
        "within ALPHA, but for a probability of BETA, and the error of a given memory. It does so "
        "for Dwork's estimator, OptBern and PPDS, as published and repaired.",
    )
    plan.add_argument("--config", metavar="FILE", help="the fleet's configuration")
    plan.add_argument(
        "--profile",
        choices=known(),
        help="with --config: the firmware profile (default: that of the file)",
    )
    plan.add_argument(
        "--alpha", type=float, metavar="SHARE", help="the largest error (default: 0.05)"
    )
    plan.add_argument(
        "--beta",
        type=float,
        metavar="SHARE",
        help="the probability of a larger error (default: 0.05)",
    )
    plan.add_argument(
        "--epsilon",
        type=float,
        nargs="+",
        metavar="EPSILON",
        help="of the state and of the output each; a key spends both (default: 0.2 0.5 1)",
    )
    plan.add_argument(
        "--memory", type=int, metavar="BYTES", help="the size of the state (default: 4096)"
    )
    keys = plan.add_mutually_exclusive_group()
    keys.add_argument(
        "--universe", type=int, metavar="KEYS", help="the keys are numbers below this one"
    )
    keys.add_argument(
        "--expected-keys", type=int, metavar="KEYS", help="the keys are texts, so many in a window"
    )
    keys.add_argument(
        "--any-number",
        action="store_true",
        default=None,
        help="the keys are texts, and nothing is known of their number",
    )
    plan.add_argument("--json", action="store_true", help="print one JSON object")
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
        # As the collector does: sources and secrets of a device need not exist here.
        config = load_reader(options.config, os.environ)
        profile = load_profile(options.profile) if options.profile else config.profile
        found = plan_report.plan_streams(config, profile)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    text = plan_report.config_json if options.json else plan_report.config_text
    print(text(profile, found))
    return 0


def _plan_keys(options: argparse.Namespace) -> int:
    wanted = DistinctWanted(
        0.05 if options.alpha is None else options.alpha,
        0.05 if options.beta is None else options.beta,
        tuple(options.epsilon or DEFAULT_EPSILONS),
        4096 if options.memory is None else options.memory,
        options.universe,
        options.expected_keys,
        bool(options.any_number),
    )
    try:
        answers = distinct_plans(wanted)
    except ValueError as error:
        return _refuse(str(error))
    text = plan_report.distinct_json if options.json else plan_report.distinct_text
    print(text(wanted, answers))
    return 0


def _refuse(problem: str) -> int:
    print(f"pansketch: plan: {problem}", file=sys.stderr)
    return 2
