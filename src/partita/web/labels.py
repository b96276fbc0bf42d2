"""What pages call a partition."""

from partita.picture.bins import key_label


def label_of(key: str) -> str:
    """A key in words."""
    return key_label(key) or "the whole asset"
