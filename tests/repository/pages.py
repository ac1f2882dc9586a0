"""The pages of the documentation that a reader may open."""

from tests.repository.layers import ROOT

# Folders of code that speaks to people, in its prose.
FOLDERS = (
    "agent",
    "audit",
    "cli",
    "collector",
    "demo",
    "fleet",
    "keeper",
    "pansketch",
    "proofs",
    "testbed",
)
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "data").rglob("*.md")),
]


def named(page):
    """The name of a page in a list of tests."""
    return f"{page.parent.name}-{page.stem}"
