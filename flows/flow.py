"""The decorator that makes a function a flow.

A question, such as `kgcal predict`, calls the function of its flow directly if there is no Prefect server. It then
needs no Prefect, whose import takes more than a second. So a flow that is declared before Prefect is loaded becomes a
Prefect flow later: when it is called, or when a program reads an attribute that only Prefect's flows have.
"""

import inspect
import re
import sys
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from flows.prefect_flow import HeartbeatFlow

P = ParamSpec("P")
R = TypeVar("R")


class LaterFlow(Generic[P, R]):
    """A flow whose Prefect flow is not made yet.

    fn             the function
    name           its name in Prefect
    flow_run_name  as in `flow`
    """

    def __init__(self, fn: Callable[P, R], name: str, flow_run_name: str | Callable[[], str] | None) -> None:
        self.fn, self.name, self.flow_run_name = fn, name, flow_run_name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the flow: see `HeartbeatFlow`."""
        return self._flow(*args, **kwargs)

    def __getattr__(self, attribute: str) -> Any:
        """Return an attribute of the Prefect flow."""
        if attribute.startswith("__"):  # a question of Python or of a library, such as copy
            raise AttributeError(attribute)
        return getattr(self._flow, attribute)

    @cached_property
    def _flow(self) -> "HeartbeatFlow[P, R]":
        from flows.prefect_flow import HeartbeatFlow  # loads Prefect

        return HeartbeatFlow(self.fn, name=self.name, flow_run_name=self.flow_run_name)


def flow(
    name: str, flow_run_name: str | Callable[[], str] | None = None
) -> "Callable[[Callable[P, R]], HeartbeatFlow[P, R]]":
    """Return a decorator that makes a function a flow. `flow_run_name` may contain parameters in braces.

    Where Prefect is loaded, as in a worker, the flow is a Prefect flow at once; elsewhere it is a LaterFlow.
    """

    def make(function: Callable[P, R]) -> "HeartbeatFlow[P, R]":
        later = LaterFlow(function, name, flow_run_name)
        made = later._flow if "prefect.flows" in sys.modules else later
        return cast("HeartbeatFlow[P, R]", made)

    return make


def described(function: Callable[..., Any]) -> dict[str, str]:
    """Return parameter -> its description in the section `Args:` of a flow's docstring, as Prefect reads it.

    A line of the section with the least indentation begins a description: `parameter: text`. Deeper lines continue it.
    """
    _, _, section = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", section, re.MULTILINE)
    return {name: inspect.cleandoc(text) for name, text in found}
