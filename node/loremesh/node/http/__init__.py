"""The running node's door: the verbs over HTTP on this machine, for whoever holds the home's token."""
