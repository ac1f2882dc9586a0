"""The settings of a source that listens to a local topic."""


def source(url: str, topic: str = "home/air", more: str = "") -> str:
    return f'{{type: mqtt, topic: "{topic}", url: "{url}"{more}}}'
