"""bucket and hash."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from partita.algebra.hashing import has_canonical_json, murmur3_hash
from partita.algebra.physical_values import PhysicalValue
from partita.algebra.transforms.base import Transform, TransformFamily
from partita.algebra.types import BINARY_KINDS, INTEGER_KINDS, STRING, TIMESTAMP_KINDS, LogicalType, TypeKind

_HASHABLE_KINDS = (
    INTEGER_KINDS
    | TIMESTAMP_KINDS
    | BINARY_KINDS
    | {TypeKind.DATE, TypeKind.DECIMAL, TypeKind.TIME, TypeKind.STRING, TypeKind.UUID}
)


@dataclass(frozen=True, slots=True)
class HashedTransform(Transform):
    """A function of the Murmur3 hash of the value."""

    is_hashed = True

    @abstractmethod
    def result_of_hash(self, hash_: int) -> PhysicalValue:
        """Return the result for a value with the given Murmur3 hash, a signed 32-bit integer."""

    def _apply(self, value: object, type_: LogicalType, family: TransformFamily) -> object:
        return self.result_of_hash(murmur3_hash(value, type_))


@dataclass(frozen=True, slots=True)
class BucketTransform(HashedTransform):
    """One of `num_buckets` buckets, by the hash of the value."""

    num_buckets: int

    name = "bucket"
    accepted_kinds = dict.fromkeys(TransformFamily, _HASHABLE_KINDS)
    field_suffix = "_bucket"
    parameter_name = "num_buckets"
    parameter_label = "number of buckets"

    @property
    def parameter(self) -> int:
        return self.num_buckets

    def result_of_hash(self, hash_: int) -> PhysicalValue:
        return (hash_ & 0x7FFF_FFFF) % self.num_buckets

    def result_range(self, family: TransformFamily) -> range:
        return range(self.num_buckets)


@dataclass(frozen=True, slots=True)
class HashTransform(HashedTransform):
    """The hash of the value, as eight hexadecimal digits."""

    name = "hash"
    accepted_kinds = {  # noqa: RUF012 # declared as a ClassVar by the base class
        TransformFamily.LANCE: frozenset(TypeKind) - {TypeKind.OTHER, TypeKind.NULL}
    }
    field_suffix = "_hash"

    def _type_problem(self, type_: LogicalType, family: TransformFamily) -> str | None:
        problem = Transform._type_problem(self, type_, family)  # noqa: SLF001 # the base class's own
        return "a part of it has no canonical JSON" if problem is None and not has_canonical_json(type_) else problem

    def result_type(self, type_: LogicalType) -> LogicalType:
        return STRING

    def results_text(self, family: TransformFamily) -> str:
        return "eight hex digits"

    def result_of_hash(self, hash_: int) -> PhysicalValue:
        return f"{hash_ & 0xFFFF_FFFF:08x}"
