"""The operations on a table, the same for every format, on Spark; the rest of `partita.formats` needs no JVM."""
