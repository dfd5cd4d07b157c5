"""Services over HTTP that a home may be told to ask: see this folder's README."""
