"""pansketch: pan-private sketches for fleets of small devices."""

from pansketch.cells import CellsSketch, CellsSpec
from pansketch.distinct import DistinctSpec
from pansketch.domain import Attribute, Domain
from pansketch.generators.box_covariance import covariance
from pansketch.generators.density import density
from pansketch.generators.density_model import DensityModel
from pansketch.generators.estimates import Estimates
from pansketch.generators.imse import ImseTerms, imse_terms
from pansketch.generators.kd_fit import KdTree
from pansketch.generators.kdtree import kdtree
from pansketch.generators.kdtree_points import kdtree_points
from pansketch.generators.m2m import m2m
from pansketch.generators.mmd import mmd
from pansketch.generators.moment_model import M2MModel
from pansketch.generators.partition import EmptyModel, Estimate, Partition, combine
from pansketch.generators.privhp import privhp
from pansketch.generators.training import Training
from pansketch.hierarchy import HierarchySketch, HierarchySpec
from pansketch.key_sketch import DistinctSketch
from pansketch.keycount import distinct_keys, frozen
from pansketch.keys import key_words
from pansketch.moments import MomentsSketch, MomentsSpec
from pansketch.noise import Entropy, os_entropy
from pansketch.occupancy import NoEstimate
from pansketch.privacy import Guarantee, Privacy, Span
from pansketch.sketch import MergeError, Release, Sketch, SketchClosed, Spec, WindowId, merge
from pansketch.version import __version__
from pansketch.view import View
from pansketch.views import ViewsSketch, ViewsSpec
from pansketch.wire import Header, WireError, decode, decode_all, encode, peek

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
    "frozen",
    "imse_terms",
    "kdtree",
    "kdtree_points",
    "key_words",
    "m2m",
    "merge",
    "mmd",
    "os_entropy",
    "peek",
    "privhp",
]
