"""What tasks read of a table: leaves and parts of leaves, packed by size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import pyarrow as pa

from partita.errors import SchemaError, TableError
from partita.formats.lance.leaf import Leaf, fragments_of, size_of, translated
from partita.formats.lance.search import Question
from partita.formats.lance.state import LanceState

if TYPE_CHECKING:
    import numpy as np

    from partita.formats.lance.store import LanceStore

LARGEST = 128 * 2**20
"""Bytes that a task reads, where it has the choice."""
SMALLEST = 2 * 2**20
"""Bytes below which a task more is not worth its start."""
BATCH = 65_536
"""Rows that are handed to Spark at once."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A leaf at a version, or some of its fragments; `number` is its place among those scanned."""

    leaf: Leaf
    version: int
    number: int
    size: int
    where: str | None = None
    fragments: tuple[int, ...] | None = None


def packs_of(
    store: LanceStore, state: LanceState, places: np.ndarray, filters: Sequence[str | None], tasks: int
) -> list[list[Piece]]:
    """The leaves at those places, packed; a leaf that is too large for one task goes to several."""
    whole = leaves_of(store, state, places, filters)
    largest = _largest(whole, tasks)
    pieces = [part for piece in whole for part in (parts_of(piece, largest) if _is_large(piece, largest) else [piece])]
    return packed(pieces, largest)


def leaf_packs_of(
    store: LanceStore, state: LanceState, places: np.ndarray, filters: Sequence[str | None], tasks: int
) -> list[list[Piece]]:
    """The leaves at those places, packed whole."""
    whole = leaves_of(store, state, places, filters)
    return packed(whole, _largest(whole, tasks))


def leaves_of(store: LanceStore, state: LanceState, places: np.ndarray, filters: Sequence[str | None]) -> list[Piece]:
    """The leaves at those places, but for those that the filter leaves nothing of."""
    versions = store.versions(state, places)
    leaves = [store.leaf(state, place) for place in places.tolist()]
    known = state.files["bytes"].take(pa.array(places)).to_pylist()
    return [
        Piece(leaf, version, number, size or 0, where)
        for number, (leaf, version, size, where) in enumerate(zip(leaves, versions, known, filters, strict=True))
        if where != "FALSE"
    ]


def _largest(whole: Sequence[Piece], tasks: int) -> int:
    """How much goes to one task: no more than is good for it, and enough tasks for all cores."""
    return min(LARGEST, max(SMALLEST, sum(piece.size for piece in whole) // max(1, tasks)))


def _is_large(piece: Piece, largest: int) -> bool:
    return piece.size == 0 or piece.size > largest


def parts_of(piece: Piece, largest: int) -> Iterator[Piece]:
    """A leaf as groups of its fragments; one fragment is never split."""
    group: list[int] = []
    held = 0
    for fragment in fragments_of(piece.leaf.open(piece.version)):
        _, size = size_of([fragment])
        if group and held + size > largest:
            yield Piece(piece.leaf, piece.version, piece.number, held, piece.where, tuple(group))
            group, held = [], 0
        group.append(fragment.id)
        held += size
    if group:
        yield Piece(piece.leaf, piece.version, piece.number, held, piece.where, tuple(group))


def packed(pieces: Sequence[Piece], largest: int) -> list[list[Piece]]:
    """The pieces in packs of no more than about so many bytes: from the largest on, each to the pack that has least."""
    total = sum(piece.size for piece in pieces)
    count = max(-(-total // largest), -(-len(pieces) // _MOST), 1)
    packs: list[list[Piece]] = [[] for _ in range(min(count, len(pieces)))]
    held = [(0, at) for at in range(len(packs))]
    for piece in sorted(pieces, key=lambda p: -p.size):
        size, at = heappop(held)
        packs[at].append(piece)
        # To open a leaf takes time too, however small it is.
        heappush(held, (size + piece.size + _OPENING, at))
    return packs


_MOST = 1000
"""Leaves in one task."""
_OPENING = 64 * 2**10
"""What it takes to open a leaf, in bytes that could be read meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class LanceReader:
    """How packs are read on executors: stored columns by Lance, those that names say put beside them.

    `schema` are the Arrow types that Spark takes, with `positions` those of the leaf's number and the row's address at
    its end; `constants` has a row for each number, and a column for each that leaves don't hold.
    """

    packs: list[list[Piece]]
    stored: tuple[str, ...]
    schema: pa.Schema
    constants: pa.Table
    positions: bool = False

    def read(self, pack: int) -> Iterator[pa.RecordBatch]:
        """The rows of a pack."""
        for piece in self.packs[pack]:
            yield from self._rows(piece)

    def _rows(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        with translated(piece.leaf.location):
            dataset = piece.leaf.open(piece.version)
            # What a leaf lacks is null in it: a column that came after it was made. A filter may speak of that one.
            there = set(dataset.schema.names)
            columns = [name for name in self.stored if name in there]
            where = piece.where if len(columns) == len(self.stored) else None
            fragments = dataset.get_fragments() if piece.fragments is not None else None
            scanner = dataset.scanner(
                columns=columns, filter=where, batch_size=BATCH, scan_in_order=False,
                fragments=fragments and [f for f in fragments if f.fragment_id in (piece.fragments or ())],
                with_row_address=self.positions or not columns,
            )  # fmt: skip
            for batch in scanner.to_batches():
                if batch.num_rows:
                    yield self._completed(batch, piece.number)

    def _completed(self, batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
        fields = list(self.schema)
        columns = []
        for f in fields[:-2] if self.positions else fields:
            if f.name in self.constants.column_names:
                columns.append(pa.repeat(self.constants[f.name][number], batch.num_rows).cast(f.type))
            elif f.name in batch.schema.names:
                columns.append(_cast(batch.column(f.name), f))
            elif f.nullable:
                columns.append(pa.nulls(batch.num_rows, f.type))
            else:
                raise TableError(f"a leaf has no column {f.name!r}, which may not be null; repair() says which")
        if self.positions:
            columns.append(pa.repeat(pa.scalar(number, fields[-2].type), batch.num_rows))
            columns.append(batch.column("_rowaddr").cast(fields[-1].type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    """The column as Spark takes it; what is finer than a microsecond is refused, not cut."""
    try:
        if column.type == pa.time64("ns"):
            column = column.cast(pa.time64("us"))
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaError(
            f"column {field.name!r} is {column.type}, and Spark has no type that holds it: {error}; leave the column "
            "out, or read the leaf with Lance"
        ) from error


def constants_of(state: LanceState, places: np.ndarray, names: Sequence[str]) -> pa.Table:
    """The columns that leaves at those places don't hold, a row for each leaf."""
    columns = {}
    for name in names:
        if name in state.definition.left_out:
            one = next(f for f in state.spec.fields if f.source == name and f.transform.name == "identity")
            columns[name] = state.partitions[one.name].take(pa.array(places))
    return pa.table(columns)


@dataclass(frozen=True, slots=True, eq=False)
class SearchReader:
    """How packs are searched on executors."""

    packs: list[list[Piece]]
    question: Question
    schema: pa.Schema
    constants: pa.Table = field(default_factory=lambda: pa.table({}))

    def read(self, pack: int) -> Iterator[pa.RecordBatch]:
        """The nearest rows of each leaf in a pack."""
        for piece in self.packs[pack]:
            found = self.question.asked(piece.leaf, piece.version, piece.where)
            columns = [
                pa.repeat(self.constants[f.name][piece.number], found.num_rows).cast(f.type)
                if f.name in self.constants.column_names
                else found[f.name].combine_chunks().cast(f.type)
                for f in self.schema
            ]
            if found.num_rows:
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
