"""Capabilities beside the core. Nothing in the core imports them, except where the backend of the CPU is chosen.

fast_cpu  the compiled loops that train, score and rank on the CPU
"""
