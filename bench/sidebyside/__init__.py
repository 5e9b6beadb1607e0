"""quire and its peers, side by side on real models: see docs/measuring.md."""
