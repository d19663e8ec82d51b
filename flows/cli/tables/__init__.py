"""Results as terminal tables, one module per command. Tables for pages and the Prefect UI are in kgcore/report/."""
