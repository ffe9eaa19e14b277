"""Runs that live on W&B: name them, ask about them, and fetch what they have left there."""
