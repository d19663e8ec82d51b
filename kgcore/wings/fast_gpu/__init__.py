"""A backend for a GPU: steps that are recorded once and replayed, with corruptions that the GPU draws.

training.py  the recorded steps, and the epochs of a training
draws.py     the order of the positives and their corruptions, as functions of a counter
"""
