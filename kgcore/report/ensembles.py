"""Tables of ensembles and their members: the parts of a table, and the table in Markdown."""

from kgcore.report.columns import first_table
from kgcore.report.ensemble_summary import EnsembleSummary


def ensemble_markdown(summary: EnsembleSummary) -> str:
    """The table of members and ensembles, a sentence on disagreement, and the calibrate run of every member."""
    heads = column_heads(summary)
    lines = [f"| {' | '.join(['negatives', 'model', *heads])} |", "|---|---|" + "---|" * len(heads)]
    for row in summary.results.rows:
        cells = row.texts(first_table()) + weight_cells(summary, row.negatives, row.calibrator)
        lines.append(f"| {' | '.join([words(row.negatives), row_title(summary, row.calibrator), *cells])} |")
    lines.append("")
    for negatives in summary.results.negatives:
        lines += [f"* {words(negatives)}, {line}" for line in disputes(summary, negatives)]
    members = ", ".join(f"{member.name} `{member.calibrate}`" for member in summary.members)
    return "\n".join([*lines, "", f"Members: {members}"])


def column_heads(summary: EnsembleSummary) -> list[str]:
    """The heads of the columns with numbers: the metrics, and the weights in each pool."""
    return [words(metric) for metric in first_table()] + [f"{words(pool)}, weight" for pool in summary.pools]


def row_title(summary: EnsembleSummary, name: str) -> str:
    """The title of a row: a member's name, or `ensemble` and its pool."""
    return f"ensemble, {words(name)}" if name in summary.pools else name


def weight_cells(summary: EnsembleSummary, negatives: str, name: str) -> list[str]:
    """The weight of a member in each pool, as text; empty for an ensemble."""
    weights = [summary.pooled(negatives, pool).weights for pool in summary.pools]
    return [f"{own[name]:.3f}" if name in own else "" for own in weights]


def disputes(summary: EnsembleSummary, negatives: str) -> list[str]:
    """A sentence for each ensemble about the disagreement of its members and its error."""
    pools = [(pool, summary.pooled(negatives, pool).disputed) for pool in summary.pools]
    return [
        f"{words(pool)}: members disagree by {own.disagreement:.4f} nats; Brier score "
        f"{own.brier_agreed:.4f} on the half they agree on most, {own.brier_disputed:.4f} on the other"
        for pool, own in pools
    ]


def words(name: str) -> str:
    """A name without its underscores; log-odds keeps its hyphen."""
    return name.replace("log_odds", "log-odds").replace("_", " ")
