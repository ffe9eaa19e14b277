"""Make ``python -m jade`` the same as ``jade``."""

from jade.cli import jade_program

jade_program()
