"""Run the compilers, read their output (registers, machine code, issue rate), and record
provenance.
"""
