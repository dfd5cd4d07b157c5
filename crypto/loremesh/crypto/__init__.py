"""Identity, signed envelopes, sealing at rest, space keys and key stores."""
