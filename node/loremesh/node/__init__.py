"""The node: events, rules, fold, store and recall; the doors onto them at the edge."""
