"""The `kgcal` command: options made from the settings, commands by topic, terminal tables, and MLproject.

options.py and terminal.py are what the commands share; commands/ has one module per topic; mlproject.py makes MLproject
from the commands. No computation lives here.
"""
