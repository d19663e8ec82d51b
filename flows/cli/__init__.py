"""The `kgcal` command. Nothing is computed here: a command calls a flow or a job of tasks/jobs/, and shows the result.

main.py       the entry point
index.py      the index of the commands, which loads a command when it is called; makes index.json
commands/     the commands, one module per topic; commands/flow_command.py makes a command from a flow
options.py    options made from the settings in kgcore/config
tables/       results as terminal tables
terminal.py   the Typer application, output, and how a command ends
mlproject.py  MLproject, made from the commands; project.py prints it
"""
