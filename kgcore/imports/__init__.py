"""Models that another library has trained: their tables and names are read, checked, and put in the order of a graph.

tables.py         a table of embeddings from a .npy or .safetensors file
names.py          the names of the rows of a table
embeddings.py     tables and names to a trained model
pykeen.py         folders that PyKEEN's pipeline has written
libkge.py         checkpoints of LibKGE
process.py        loads a pickle in a process of its own
pykeen_export.py  a script for that process: it loads PyKEEN's pickle, and hands back tensors
libkge_export.py  the same for LibKGE

Only the two scripts load pickles that may run code, and only in a process of their own. libkge.py loads tensors and
settings with `weights_only=True`, which runs no code.
"""
