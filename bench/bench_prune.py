"""Pruning 100,000 partitions over three fields, against the scalar definition in a loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import partita as pt
from bench.harness import Row, Side, at_least, compare
from partita.algebra.domains import domains_from_partition
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.prune import compile_predicate, may_match
from partita.arrow.schema import to_schema

PARTITION_COUNT = 100_000
LOOP_SHARE = 0.02
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("user_id", pa.int64()), ("country", pa.string())])
WHERE = "ts >= '2022-01-01' AND ts < '2022-02-01' AND user_id IN (1, 2, 3) AND country IN ('FR', 'US')"


def rows() -> Iterator[Row]:
    spec = pt.parse_spec("day(ts), bucket(16, user_id), country", SCHEMA, family="iceberg")
    partitions = _partitions()
    sample = partitions.slice(0, int(PARTITION_COUNT * LOOP_SHARE)).to_pylist()
    compiled = compile_predicate(parse_predicate(WHERE, to_schema(SCHEMA)), to_schema(SCHEMA))

    def prune_vectorised() -> pt.PruneResult:
        return pt.prune(WHERE, schema=SCHEMA, spec=spec, partitions=partitions)

    def prune_in_loop() -> list[bool]:
        return [may_match(compiled, domains_from_partition(spec, row)) for row in sample]

    assert prune_vectorised().may_match.to_pylist()[: len(sample)] == prune_in_loop()
    yield compare(
        f"prune {PARTITION_COUNT:,} partitions by a range and an IN over three fields",
        ours=Side("partita.prune, from the text on", prune_vectorised),
        theirs=Side("scalar may_match in a loop", prune_in_loop, share=LOOP_SHARE),
        goal=at_least(50),
    )


def _partitions() -> pa.Table:
    random = np.random.default_rng(7)
    return pa.table(
        {
            "ts_day": pa.array(random.integers(18_000, 20_000, PARTITION_COUNT), pa.int32()),
            "user_id_bucket": pa.array(random.integers(0, 16, PARTITION_COUNT), pa.int32()),
            "country": pa.array(random.choice(["US", "FR", "DE", "CN", "NO"], PARTITION_COUNT)),
        }
    )
