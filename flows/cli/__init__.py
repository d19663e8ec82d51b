"""The `kgcal` command. Nothing is computed here: a command calls a flow or a job of tasks/jobs/, and shows the result.

main.py          the entry point, and the list of commands, which loads a command when it is called
flow_command.py  makes the command of a job: options from the settings in kgcore/config, the call, the output
commands/        the other commands
terminal.py      the Typer application, the output of results, and how a command ends
mlproject.py     MLproject, made from the commands
"""
