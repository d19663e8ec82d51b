"""Embedding models: how a graph becomes scores.

models       one file for each scoring function
losses       one file for each loss
corruptions  one file for each strategy that replaces a subject or an object
optimisers   Adam and Adagrad that update only the rows of a step
training     the loop over epochs and steps
ranking.py   ranks of facts among all corruptions
"""
