"""Pruning 100,000 partitions over three fields, against the scalar definition in a loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import partita as pt
from bench.harness import Row, Side, at_least, compare
from partita.algebra.facts import facts_of
from partita.algebra.parse import parse_predicate
from partita.algebra.prune import compile_predicate, may_match
from partita.arrow.schema import to_schema

SIZE = 100_000
SHARE = 0.02
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("user_id", pa.int64()), ("country", pa.string())])
WHERE = "ts >= '2022-01-01' AND ts < '2022-02-01' AND user_id IN (1, 2, 3) AND country IN ('FR', 'US')"


def rows() -> Iterator[Row]:
    spec = pt.parse_spec("day(ts), bucket(16, user_id), country", SCHEMA, family="iceberg")
    partitions = _partitions()
    sample = partitions.slice(0, int(SIZE * SHARE)).to_pylist()
    compiled = compile_predicate(parse_predicate(WHERE, to_schema(SCHEMA)), to_schema(SCHEMA))

    def vectorised() -> pt.Pruned:
        return pt.prune(WHERE, schema=SCHEMA, spec=spec, partitions=partitions)

    def loop() -> list[bool]:
        return [may_match(compiled, facts_of(spec, row)) for row in sample]

    assert vectorised().may_match.to_pylist()[: len(sample)] == loop()
    yield compare(
        f"prune {SIZE:,} partitions by a range and an IN over three fields",
        ours=Side("partita.prune, from the text on", vectorised),
        theirs=Side("scalar may_match in a loop", loop, share=SHARE),
        goal=at_least(50),
    )


def _partitions() -> pa.Table:
    random = np.random.default_rng(7)
    return pa.table(
        {
            "ts_day": pa.array(random.integers(18_000, 20_000, SIZE), pa.int32()),
            "user_id_bucket": pa.array(random.integers(0, 16, SIZE), pa.int32()),
            "country": pa.array(random.choice(["US", "FR", "DE", "CN", "NO"], SIZE)),
        }
    )
