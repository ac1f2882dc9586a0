"""pansketch: pan-private sketches for fleets of small devices."""

from pansketch.domain import Attribute, Domain
from pansketch.generators.partition import EmptyModel, Estimate, Partition, combine
from pansketch.generators.privhp import privhp
from pansketch.hierarchy import HierarchySketch, HierarchySpec
from pansketch.noise import Entropy, os_entropy
from pansketch.privacy import Guarantee, Privacy, Span
from pansketch.sketch import MergeError, Release, Sketch, SketchClosed, Spec, WindowId, merge
from pansketch.version import __version__
from pansketch.wire import Header, WireError, decode, encode, peek

__all__ = [
    "Attribute",
    "Domain",
    "EmptyModel",
    "Entropy",
    "Estimate",
    "Guarantee",
    "Header",
    "HierarchySketch",
    "HierarchySpec",
    "MergeError",
    "Partition",
    "Privacy",
    "Release",
    "Sketch",
    "SketchClosed",
    "Span",
    "Spec",
    "WindowId",
    "WireError",
    "__version__",
    "combine",
    "decode",
    "encode",
    "merge",
    "os_entropy",
    "peek",
    "privhp",
]
