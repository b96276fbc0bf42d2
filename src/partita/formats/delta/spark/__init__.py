"""What Delta tables need of Spark."""
