"""The formats by name."""

FORMATS = ("delta", "iceberg", "lance")
