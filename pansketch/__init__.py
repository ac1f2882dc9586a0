"""pansketch: pan-private sketches for fleets of small devices."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pansketch.cells import CellsSketch, CellsSpec
from pansketch.distinct import DistinctSpec
from pansketch.domain import Attribute, Domain
from pansketch.estimate import Estimate
from pansketch.hierarchy import HierarchySketch, HierarchySpec
from pansketch.hierarchy_planning import plan_hierarchy
from pansketch.key_sketch import DistinctSketch
from pansketch.keycount import distinct_keys, frozen
from pansketch.keys import key_words
from pansketch.moments import MomentsSketch, MomentsSpec
from pansketch.noise import Entropy, os_entropy
from pansketch.occupancy import NoEstimate
from pansketch.plan_choice import Expected, NoPlan
from pansketch.privacy import Guarantee, Privacy, Span
from pansketch.sketch import MergeError, Release, Sketch, SketchClosed, Spec, WindowId, merge
from pansketch.version import __version__
from pansketch.view import View
from pansketch.view_planning import plan_views
from pansketch.views import ViewsSketch, ViewsSpec
from pansketch.wire import Header, WireError, decode, decode_all, encode, peek

if TYPE_CHECKING:
    from pansketch.generators.box_covariance import covariance
    from pansketch.generators.density import density
    from pansketch.generators.density_model import DensityModel
    from pansketch.generators.estimates import Estimates
    from pansketch.generators.fidelity import Fidelity, fidelity
    from pansketch.generators.imse import ImseTerms, imse_terms
    from pansketch.generators.kd_fit import KdTree
    from pansketch.generators.kdtree import kdtree
    from pansketch.generators.kdtree_points import kdtree_points
    from pansketch.generators.m2m import m2m
    from pansketch.generators.mmd import mmd
    from pansketch.generators.moment_model import M2MModel
    from pansketch.generators.pairwise import pairwise
    from pansketch.generators.partition import EmptyModel, Partition, combine
    from pansketch.generators.privhp import privhp
    from pansketch.generators.training import Training

__all__ = [
    "Attribute",
    "CellsSketch",
    "CellsSpec",
    "DensityModel",
    "DistinctSketch",
    "DistinctSpec",
    "Domain",
    "EmptyModel",
    "Entropy",
    "Estimate",
    "Estimates",
    "Expected",
    "Fidelity",
    "Guarantee",
    "Header",
    "HierarchySketch",
    "HierarchySpec",
    "ImseTerms",
    "KdTree",
    "M2MModel",
    "MergeError",
    "MomentsSketch",
    "MomentsSpec",
    "NoEstimate",
    "NoPlan",
    "Partition",
    "Privacy",
    "Release",
    "Sketch",
    "SketchClosed",
    "Span",
    "Spec",
    "Training",
    "View",
    "ViewsSketch",
    "ViewsSpec",
    "WindowId",
    "WireError",
    "__version__",
    "combine",
    "covariance",
    "decode",
    "decode_all",
    "density",
    "distinct_keys",
    "encode",
    "fidelity",
    "frozen",
    "imse_terms",
    "kdtree",
    "kdtree_points",
    "key_words",
    "m2m",
    "merge",
    "mmd",
    "os_entropy",
    "pairwise",
    "peek",
    "plan_hierarchy",
    "plan_views",
    "privhp",
]

# Where models and generators are. A device makes none, so they are loaded when first asked for.
_LATER = {
    "covariance": "box_covariance",
    "density": "density",
    "DensityModel": "density_model",
    "Estimates": "estimates",
    "Fidelity": "fidelity",
    "fidelity": "fidelity",
    "ImseTerms": "imse",
    "imse_terms": "imse",
    "KdTree": "kd_fit",
    "kdtree": "kdtree",
    "kdtree_points": "kdtree_points",
    "m2m": "m2m",
    "mmd": "mmd",
    "M2MModel": "moment_model",
    "pairwise": "pairwise",
    "EmptyModel": "partition",
    "Partition": "partition",
    "combine": "partition",
    "privhp": "privhp",
    "Training": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"pansketch.generators.{_LATER[name]}"), name)
    globals()[name] = found
    return found
