"""Models that another library has trained: their tables and names are read, checked, and put in the order of a graph.

tables.py         a table of embeddings from a .npy or .safetensors file
names.py          the names of the rows of a table
embeddings.py     tables and names to a trained model
pykeen.py         folders that PyKEEN's pipeline has written
pykeen_export.py  a script for another process that loads PyKEEN's pickle, and hands back tensors

No module of this folder but pykeen_export.py loads a pickle, and no other module imports that script.
"""
