"""Processes that verify and time kernels: the worker and its supervisor, the sweep, the
confirmation.
"""
