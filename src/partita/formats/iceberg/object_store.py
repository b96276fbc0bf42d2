"""Storage of Iceberg locations, with the object store options that a catalog's properties give."""

from __future__ import annotations

from collections.abc import Mapping

from partita.storage import Storage

_OPTION_NAMES = {
    "s3.endpoint": "aws_endpoint",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_token",
    "gcs.oauth2.token": "google_bearer_token",
}


def storage_at(uri: str, options: Mapping[str, str]) -> Storage:
    """Return the storage of a folder as Iceberg's metadata names it: in its `file:` URIs nothing is percent-encoded."""
    return Storage.from_uri(f"/{uri.removeprefix('file:').lstrip('/')}" if uri.startswith("file:/") else uri, options)


def storage_options(uri: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the object store of a URI; a local disk has none."""
    if "://" not in uri or uri.startswith("file:"):
        return {}
    options = {_OPTION_NAMES[name]: value for name, value in properties.items() if name in _OPTION_NAMES}
    if options.get("aws_endpoint", "").startswith("http://"):
        options["aws_allow_http"] = "true"
    return options
