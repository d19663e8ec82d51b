"""Ensembles beside their members: the parts of a table, and the table in Markdown."""

from typing import Any

from kgcore.report.summary import SHOWN, rows, texts


def ensemble_markdown(summary: dict[str, Any]) -> str:
    """The same in Markdown, and the calibrate run of every member."""
    columns = ["negatives", "model", *heads(summary)]
    lines = [f"| {' | '.join(columns)} |", "|---|---|" + "---|" * len(heads(summary))]
    for negatives, name, values in rows(summary):
        cells = texts(values) + weights(summary, negatives, name)
        lines.append(f"| {' | '.join([words(negatives), title(summary, name), *cells])} |")
    lines.append("")
    for negatives in summary["metrics"]:
        lines += [f"* {words(negatives)}, {line}" for line in disputes(summary, negatives)]
    members = ", ".join(f"{member['name']} `{member['calibrate']}`" for member in summary["members"])
    return "\n".join([*lines, "", f"Members: {members}"])


def heads(summary: dict[str, Any]) -> list[str]:
    """The columns with numbers: metrics, and the weights in each pool."""
    return [words(metric) for metric in SHOWN] + [f"{words(pool)}, weight" for pool in summary["pools"]]


def title(summary: dict[str, Any], name: str) -> str:
    """A row's name: of a member as it is, of an ensemble by its pool."""
    return f"ensemble, {words(name)}" if name in summary["pools"] else name


def weights(summary: dict[str, Any], negatives: str, name: str) -> list[str]:
    """The weight of a member in each pool; nothing for an ensemble."""
    pools = [summary["ensembles"][f"{negatives}.{pool}"]["weights"] for pool in summary["pools"]]
    return [f"{weight[name]:.3f}" if name in weight else "" for weight in pools]


def disputes(summary: dict[str, Any], negatives: str) -> list[str]:
    """A sentence for each ensemble on its members' disagreement and its error."""
    return [
        f"{words(pool)}: members disagree by {told['disagreement']:.4f} nats; Brier score "
        f"{told['brier_agreed']:.4f} on the half they agree on most, {told['brier_disputed']:.4f} on the other"
        for pool in summary["pools"]
        for told in (summary["ensembles"][f"{negatives}.{pool}"],)
    ]


def words(name: str) -> str:
    """A name without its underscores; log-odds as it is written."""
    return name.replace("log_odds", "log-odds").replace("_", " ")
