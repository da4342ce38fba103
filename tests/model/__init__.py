"""Exhaustive models of the commit protocol; `python -m model` from tests/ checks them all."""
