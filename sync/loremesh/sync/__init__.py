"""Wire format, feeds, combine, trust, limits and repair; NATS only at the edge."""
