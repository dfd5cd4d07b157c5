"""The command line: a thin door onto the verbs, for people and for programs."""
