"""pansketch: pan-private sketches for fleets of small devices.

Here are domains, privacy, specs, releases and their bytes. `pansketch.planning` chooses sizes, and
`pansketch.generators` makes models of releases; a device never imports the latter.
"""

from pansketch.domain.domain import Attribute, Domain
from pansketch.estimate import Estimate
from pansketch.privacy import Guarantee, Privacy, Span
from pansketch.randomness.exact_noise import Entropy, os_entropy
from pansketch.sketches.cells import CellsSpec
from pansketch.sketches.distinct.combine import distinct_keys, frozen
from pansketch.sketches.distinct.keys import key_words
from pansketch.sketches.distinct.spec import DistinctSpec
from pansketch.sketches.hierarchy import HierarchySpec
from pansketch.sketches.moments.sketch import MomentsSpec
from pansketch.sketches.release_model import (
    MergeError,
    Release,
    Sketch,
    SketchClosed,
    Spec,
    WindowId,
    merge,
)
from pansketch.sketches.slot_occupancy import NoEstimate
from pansketch.sketches.views import View, ViewsSpec
from pansketch.version import __version__
from pansketch.wire.codec import Header, WireError, decode, decode_all, encode, encode_all, peek

__all__ = [
    "Attribute",
    "CellsSpec",
    "DistinctSpec",
    "Domain",
    "Entropy",
    "Estimate",
    "Guarantee",
    "Header",
    "HierarchySpec",
    "MergeError",
    "MomentsSpec",
    "NoEstimate",
    "Privacy",
    "Release",
    "Sketch",
    "SketchClosed",
    "Span",
    "Spec",
    "View",
    "ViewsSpec",
    "WindowId",
    "WireError",
    "__version__",
    "decode",
    "decode_all",
    "distinct_keys",
    "encode",
    "encode_all",
    "frozen",
    "key_words",
    "merge",
    "os_entropy",
    "peek",
]
