"""pansketch: pan-private sketches for fleets of small devices.

Here are domains, privacy, specs, releases and their bytes. `pansketch.planning` chooses sizes, and
`pansketch.generators` makes models of releases; a device never imports the latter.
"""

from pansketch.domain.domain import Attribute, Domain
from pansketch.estimate import Estimate
from pansketch.privacy import Guarantee, Privacy, Span
from pansketch.randomness.exact_noise import Entropy, os_entropy
from pansketch.sketches.cells import CellsSpec
from pansketch.sketches.distinct.combine import distinct_keys, is_incomplete
from pansketch.sketches.distinct.keys import hash_keys
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
from pansketch.wire.codec import (
    Header,
    WireError,
    decode,
    decode_all,
    encode,
    encode_all,
    read_header,
)

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
    "hash_keys",
    "is_incomplete",
    "merge",
    "os_entropy",
    "read_header",
]
