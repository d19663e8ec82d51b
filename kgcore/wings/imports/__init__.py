"""Models that another library has trained: their tables and names are read, checked, and put in the order of a graph.

files.py       tables of embeddings, the names of their rows, and pickles that a process of its own loads
export.py      the script for that process: it loads a pickle of PyKEEN or LibKGE, and hands back tensors
libraries.py   folders that PyKEEN's pipeline has written, and checkpoints of LibKGE
embeddings.py  tables and names to a trained model

Only export.py loads pickles that may run code, and only in a process of its own. libraries.py loads tensors and
settings of LibKGE with `weights_only=True`, which runs no code.
"""
