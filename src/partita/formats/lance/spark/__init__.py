"""What Lance tables need of Spark."""
