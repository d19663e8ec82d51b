"""The MLflow variables of kgcal are set before MLflow is imported, whichever module imports it first."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "mlflow":
            print(os.environ.get("MLFLOW_DISABLE_TELEMETRY"))
            sys.exit()

sys.meta_path.insert(0, Watch())
import {module}
import mlflow
"""


def at_import(module: str, **variables: str) -> list[str]:
    """Return MLFLOW_DISABLE_TELEMETRY at the moment when a new process that has imported the module imports MLflow."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")} | variables
    command = [sys.executable, "-c", SCRIPT.format(module=module)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("module", ["tasks.tracking.record", "tasks.tracking.connection", "flows.pipeline"])
def test_telemetry_is_off_before_mlflow_is_imported(module: str) -> None:
    assert at_import(module) == ["true"]


def test_a_variable_that_the_user_has_set_stays() -> None:
    assert at_import("tasks.tracking.record", MLFLOW_DISABLE_TELEMETRY="false") == ["false"]
