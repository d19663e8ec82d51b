"""The table of an ensemble's results in Markdown, and the functions that make the texts of its rows and columns."""

from kgcore.report.columns import first_table
from kgcore.report.ensemble_summary import EnsembleSummary


def ensemble_markdown(summary: EnsembleSummary) -> str:
    """Return Markdown: the table of members and ensembles, sentences on disagreement, and the members' run ids."""
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
    """Return the headings of the columns with numbers: the metrics, and for each pool the weight of a member."""
    return [words(metric) for metric in first_table()] + [f"{words(pool)}, weight" for pool in summary.pools]


def row_title(summary: EnsembleSummary, name: str) -> str:
    """Return the title of a row: the name of a member, or `ensemble, ` and the name of the pool."""
    return f"ensemble, {words(name)}" if name in summary.pools else name


def weight_cells(summary: EnsembleSummary, negatives: str, name: str) -> list[str]:
    """Return the weight of a model in each pool, as text: empty if the model is not a member, as an ensemble is not."""
    weights = [summary.pooled(negatives, pool).weights for pool in summary.pools]
    return [f"{own[name]:.3f}" if name in own else "" for own in weights]


def disputes(summary: EnsembleSummary, negatives: str) -> list[str]:
    """Describe each ensemble in a sentence: the disagreement of its members, and its error."""
    pools = [(pool, summary.pooled(negatives, pool).disputed) for pool in summary.pools]
    return [
        f"{words(pool)}: members disagree by {own.disagreement:.4f} nats; Brier score "
        f"{own.brier_agreed:.4f} on the half of the triples with the least disagreement, "
        f"{own.brier_disputed:.4f} on the other half"
        for pool, own in pools
    ]


def words(name: str) -> str:
    """Replace the underscores of a name by spaces. `log_odds` becomes `log-odds`."""
    return name.replace("log_odds", "log-odds").replace("_", " ")
