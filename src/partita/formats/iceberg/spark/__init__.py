"""What Iceberg tables need of Spark."""
