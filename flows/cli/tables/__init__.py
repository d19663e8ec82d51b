"""Results as tables in the terminal, one module per command. Tables for pages and Prefect are in kgcore/report/."""
