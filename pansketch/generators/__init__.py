"""Generators: models of merged releases, which draw synthetic records and answer queries."""

from pansketch.estimate import Estimates
from pansketch.generators.density.generator import density
from pansketch.generators.density.model import DensityModel, ImseTerms, imse_terms
from pansketch.generators.fidelity.fidelity import Fidelity, fidelity
from pansketch.generators.hierarchy.kdtree import kdtree
from pansketch.generators.hierarchy.privhp import privhp
from pansketch.generators.kdtree_points.generator import kdtree_points
from pansketch.generators.kdtree_points.least_squares import KdTree
from pansketch.generators.model import FittedModel, Sampler
from pansketch.generators.moments.generator import m2m
from pansketch.generators.moments.mmd import median_bandwidth, mmd
from pansketch.generators.moments.model import M2MModel
from pansketch.generators.moments.training_points import Training
from pansketch.generators.pairwise.generator import ViewsModel, pairwise
from pansketch.generators.pairwise.margin import margin
from pansketch.generators.partition.box_overlap import overlap
from pansketch.generators.partition.found_atoms import Spike, found_atoms
from pansketch.generators.partition.learned_scale import learned_domain
from pansketch.generators.partition.partition import Partition
from pansketch.generators.partition.predicate import parse_predicate
from pansketch.generators.partition.rebasing import combine, common_domain
from pansketch.generators.periods.drift import Drift, holm, margin_drift
from pansketch.generators.periods.local_level import Levels, smooth_levels
from pansketch.generators.significance import EmptyModel, TooFewReadings

__all__ = [
    "DensityModel",
    "Drift",
    "EmptyModel",
    "Estimates",
    "Fidelity",
    "FittedModel",
    "ImseTerms",
    "KdTree",
    "Levels",
    "M2MModel",
    "Partition",
    "Sampler",
    "Spike",
    "TooFewReadings",
    "Training",
    "ViewsModel",
    "combine",
    "common_domain",
    "density",
    "fidelity",
    "found_atoms",
    "holm",
    "imse_terms",
    "kdtree",
    "kdtree_points",
    "learned_domain",
    "m2m",
    "margin",
    "margin_drift",
    "median_bandwidth",
    "mmd",
    "overlap",
    "pairwise",
    "parse_predicate",
    "privhp",
    "smooth_levels",
]
