"""SQL statements on a lake's tables.

| module | what it does |
|---|---|
| `words` | a statement's text as sqlglot's tokens, read from left to right |
| `statements` | what the statements say, and the text that says it |
| `names` | which table each name in an expression means, and the text with other names for the tables |
| `queries` | the tables that a query names, and what its WHERE says of one of them alone |
| `partitioning` | CREATE TABLE and ALTER TABLE, which need no JVM |
| `on_spark` | queries, INSERT, UPDATE, DELETE and MERGE |
| `run` | the way in |

sqlglot reads every text, and says where each name stands in it. What Spark gets is the author's own text with those
names replaced, never what sqlglot would write.
"""
