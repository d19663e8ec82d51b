"""The commands of `kgcal`, one module per topic. `add` of a module adds its commands to the command line.

flows/cli/flow_command.py makes the commands of jobs. flows/cli/main.py lists the modules.
"""
