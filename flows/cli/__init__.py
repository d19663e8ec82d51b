"""The `kgcal` command: options made from the settings, the commands by topic, the tables that the terminal shows, and
MLproject, which is made from the commands.
"""
