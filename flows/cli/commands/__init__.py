"""The commands of `kgcal`, one module per topic. `add` of a module adds its commands to the command line.

flow_command.py makes a command from a flow. flows/cli/index.py lists the modules.
"""
