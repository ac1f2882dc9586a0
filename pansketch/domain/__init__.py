"""Attributes and domains: readings, fixed-point positions and paths of cells."""

from pansketch.domain.atoms import MAX_ATOMS, MISSING, Atom
from pansketch.domain.attribute import Attribute, Scale
from pansketch.domain.domain import Domain
from pansketch.domain.scale import FloatArray

__all__ = [
    "MAX_ATOMS",
    "MISSING",
    "Atom",
    "Attribute",
    "Domain",
    "FloatArray",
    "Scale",
]
