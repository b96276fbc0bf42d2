"""Names of folders as typed values, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.type_text import parse_type
from partita.algebra.types import STRING, Field
from partita.errors import PartitionValueError
from partita.formats.parquet.values import folder_texts, inferred_type, is_hidden, partition_folder, typed_partitions


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (["1", "-20", "0", None], "int"),
        (["1", "2147483648"], "long"),
        (["9223372036854775808"], "decimal(38,0)"),
        (["1" * 39], "string"),
        (["007", "1"], "string"),
        (["-0"], "string"),
        (["+1"], "string"),
        (["1", "x"], "string"),
        (["1", ""], "string"),
        (["2025-01-15", None], "date"),
        (["2025-02-30"], "string"),
        (["2025-1-5"], "string"),
        (["2025-01-15", "1"], "string"),
        (["2025-01-15 10:30:00", "2025-01-15 10:30:00.5"], "timestamp_ntz"),
        (["2025-01-15 10:30:00.500"], "string"),
        (["2025-01-15 25:30:00"], "string"),
        (["2025-01-15T10:30:00.000000Z"], "timestamp"),
        (["2025-01-15T10:30:00Z"], "string"),
        (["1.5", "-0.25", "1.0E10"], "double"),
        (["1.50"], "string"),
        (["1.5", "1"], "string"),
        (["NaN"], "string"),
        (["true"], "string"),
        ([None], "string"),
    ],
)
def test_a_type_is_inferred_only_where_each_text_is_the_usual_one(texts: list[str | None], type_: str) -> None:
    assert str(inferred_type(pa.array(texts, pa.string()))) == type_


@given(st.lists(st.one_of(st.integers().map(str), st.dates().map(str), st.floats().map(repr), st.text()), min_size=1))
def test_no_text_is_lost_by_its_inferred_type(texts: list[str]) -> None:
    field = Field("p", inferred_type(pa.array(texts, pa.string())))
    typed_partitions([field], [pa.array(texts, pa.string())], len(texts))
    if field.type != STRING:
        for text in set(texts):
            assert folder_texts(partition_folder([text], [field])) == (("p", text),)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20))
def test_a_text_survives_its_folder(text: str) -> None:
    folder = partition_folder([text], [Field("a=b/c", STRING)])
    assert folder_texts(folder) == (("a=b/c", text),)
    assert "/" not in folder
    assert not is_hidden(partition_folder([text], [Field("_p", STRING)]))


@pytest.mark.parametrize(
    ("folder", "texts"),
    [
        ("", ()),
        ("sub/sub", ()),
        ("p=1/sub", (("p", "1"),)),
        ("p=a%20b%2F%C3%BC", (("p", "a b/ü"),)),
        ("p=ü%2Fx", (("p", "ü/x"),)),
        ("p=%zz%", (("p", "%zz%"),)),
        ("p=%FF", (("p", "ÿ"),)),
        ("p=", (("p", ""),)),
        ("p=a=b", (("p", "a=b"),)),
        ("p=__HIVE_DEFAULT_PARTITION__", (("p", None),)),
        ("p=%5F_HIVE_DEFAULT_PARTITION__", (("p", "__HIVE_DEFAULT_PARTITION__"),)),
        ("%5Fp=1", (("_p", "1"),)),
        ("sub/p=1", None),
        ("p=1/sub/q=2", None),
    ],
)
def test_folders_of_other_writers(folder: str, texts: object) -> None:
    assert folder_texts(folder) == texts


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("_a", True),
        ("a/_b/c", True),
        ("a/.b", True),
        ("_p=1/a", False),
        ("a_b/c.d", False),
        ("_a/p=1/b", True),
        ("a._COPYING_", True),
        ("a._COPYING_.c", False),
    ],
)
def test_hidden_paths(path: str, hidden: bool) -> None:
    assert is_hidden(path) is hidden


def test_values_that_no_folder_can_hold() -> None:
    with pytest.raises(PartitionValueError, match="at most 255 bytes"):
        partition_folder(["ü" * 130], [Field("p", STRING)])
    with pytest.raises(PartitionValueError, match="the text ''"):
        typed_partitions([Field("p", parse_type("int"))], [pa.array([""])], 1)
    with pytest.raises(PartitionValueError, match="time zone"):
        typed_partitions([Field("p", parse_type("timestamp"))], [pa.array(["2025-01-15 10:30:00"])], 1)
