"""Create MLflow's databases as copies of one: its dozens of migrations, which always give the same file, run once."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tasks.tracking import new_database


def copy_new_databases() -> None:
    """Run MLflow's migrations now. The databases that this process and its children create are copies of the result.

    `test_creation.py` tests the creation itself, without copies.
    """
    with TemporaryDirectory() as folder:
        first = Path(folder, "mlflow.db")
        new_database._write_database(first)
        content = first.read_bytes()

    def write(file: Path) -> None:
        file.write_bytes(content)

    new_database._write_database = write
