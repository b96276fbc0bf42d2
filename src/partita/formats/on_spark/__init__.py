"""What every format does the same way on Spark; the rest of `partita.formats` needs no JVM."""
