"""GPUs and the host CPU: finding and locking them, operands, launches, timed rounds, vendors'
libraries.
"""
