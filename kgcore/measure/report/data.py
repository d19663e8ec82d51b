"""What reports share: names and sentences for counts, the settings that they show, and pages of HTML in one file."""

import io
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgcore.base_rate import HiddenShare
from kgcore.config.base import RANDOM
from kgcore.config.jobs import FEWEST_CALIBRATED
from kgcore.data.graph import KnowledgeGraph
from kgcore.registries import DATASETS

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

_SVG = threading.Lock()  # matplotlib's settings are shared by all threads
GENERATION = ("size", "graph_seed")  # settings that only generated data sets use
# settings that only a user's own data sets use
OWN = ("columns", "confidence", "split", "valid_share", "test_share", "split_seed")
MANY_HIDDEN = 0.01  # a smaller share of corruptions that are facts of test is not reported
PARTS = ("train", "valid", "test", "labels")  # the first word of a count
TITLES = {
    "rows": "rows",
    "with_unseen": "rows with unknown names",
    "duplicates": "duplicate rows",
    "not_held_out": "rows that are also in train or test",
    "left_out": "rows left out, because another split has them",
    "spare": "rows beyond a million, whose true ones remain known facts",
    "used": "rows used",
    "false": "rows used that are labelled false",
    "known": "rows that valid has with the same label",
    "conflicting": "duplicate rows with another confidence",
}
LEFT_OUT = {
    "triples_with_literals": "RDF triples whose object is a literal, not an entity",
    "triples_about_triples": "RDF triples that describe another triple, not an entity",
    "triples_of_no_value": "RDF triples that say that an entity has no such fact",
    "negated_rows": "rows that say that a fact does not hold (to use them as labelled negatives, give --columns with "
    "the column of negations as the fourth)",
    "nodes_without_edges": "nodes without edges",
}
MOST_EXAMPLES = 3  # of a finding
OVERLAPS = {
    "_positives_in_": " positives that are also in ",
    "_negatives_true_in_": " negatives that are positives of ",
}


@dataclass(frozen=True)
class Finding:
    """A figure of the data.

    figure   what was found
    meaning  what it means for the figures that follow, or what mends it
    warns    whether the terminal shows it in addition to the page
    """

    title: str
    figure: str
    meaning: str
    warns: bool = False


def such_as(examples: Iterable[str]) -> str:
    """Return the first MOST_EXAMPLES examples as the end of a sentence; empty without examples."""
    shown = list(examples)
    return (
        f", such as {'; '.join(shown[:MOST_EXAMPLES])}{'; ...' if len(shown) > MOST_EXAMPLES else ''}" if shown else ""
    )


def few_validation_facts(graph: KnowledgeGraph) -> Finding:
    """Return which predicates validation has so few facts of that their triples have no probability."""
    facts, valid = (
        np.bincount(split.positives[:, 1], minlength=len(graph.predicates)) for split in (graph.train, graph.valid)
    )
    few = np.flatnonzero((facts > 0) & (valid < FEWEST_CALIBRATED))
    few = few[np.argsort(-facts[few], kind="stable")]
    examples = [f"{graph.predicates[p]!r} ({valid[p]:,} of {valid[p] + facts[p]:,})" for p in few.tolist()]
    return Finding(
        "Predicates with few validation facts",
        f"{len(few):,} of {len(graph.predicates):,} have fewer than {FEWEST_CALIBRATED}; train has "
        f"{facts[few].sum():,} facts of them{such_as(examples)}",
        "Triples of these predicates have no probability: give validation more facts of them, or ask with a smaller "
        "--at-least.",
        len(few) > 0,
    )


def unread_findings(unread: Sequence[str]) -> list[Finding]:
    """Return what was not read of the files; nothing if all was. `unread`: see `Prepared`."""
    meaning = (
        "If triples are in other columns, name these by --columns. If other files have facts of the graph, too, name "
        "all of them: --dataset FILE,FILE."
    )
    return [Finding("Not read", "; ".join(unread), meaning, True)] if unread else []


def contradictions(counts: Mapping[str, int], both: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Return the findings about labelled negatives that are true in train, and in valid or test."""
    rows = []
    wrong = "A triple cannot be both: one of its labels is wrong. "
    for title, splits, meaning in (
        ("are training facts", ("train",), "Held-out rows are left out if they are in train. Correct the file."),
        ("are labelled true, too", ("valid", "test"), "It counts once with each label in its split. Correct the file."),
    ):
        count = sum(
            counts.get(f"{name}_negatives_true_in_{other}", 0) for name in ("valid", "test") for other in splits
        )
        figure = f"{count:,}{such_as(example for other in splits for example in both.get(other, ()))}"
        rows.append(Finding(f"Labelled negatives that {title}", figure, wrong + meaning, count > 0))
    return rows


def count_title(name: str) -> str:
    """Return the name that a report shows for a count: `train rows with unknown names` for `train_with_unseen`."""
    split, _, rest = name.partition("_")
    if split in PARTS and rest in TITLES:
        return f"{split} {TITLES[rest]}"
    for name_part, words in OVERLAPS.items():
        name = name.replace(name_part, words)
    return name.replace("_", " ")


def data_notes(counts: Mapping[str, int], split: str = RANDOM) -> list[str]:
    """Return sentences about how the splits were made, and about the rows of valid and test that another split has too.

    counts  counts of the data set
    split   the setting `split`
    """
    return drawn_notes(counts, split) + _overlap_notes(counts) + label_notes(counts)


def rank_notes(ranked: int, facts: int) -> list[str]:
    """Return the sentence that the ranks are those of some of the test facts; none if they are those of all."""
    return [f"Ranks: {ranked:,} of {facts:,} test facts, spread evenly over the split."] if ranked < facts else []


def drawn_notes(counts: Mapping[str, int], split: str = RANDOM, detail: str = "") -> list[str]:
    """Return sentences about the rows left out while files were read, and about splits that were drawn; or none.

    split   the setting `split`
    detail  what valid and test have in common, if it is known
    """
    notes = [f"Left out: {counts[name]:,} {words}." for name, words in LEFT_OUT.items() if counts.get(name)]
    if counts.get("drawn_from_rows", 0):
        notes.append(split_sentence(counts, split, detail))
    return notes


def split_sentence(counts: Mapping[str, int], split: str, detail: str = "") -> str:
    """Return how the rows of a data set without splits were split."""
    rows, repeated = counts["drawn_from_rows"], counts.get("drawn_from_duplicates", 0)
    without = f" without its {repeated:,} duplicate{'' if repeated == 1 else 's'}" if repeated else ""
    sizes = ", ".join(f"{counts[f'{name}_rows']:,} {name}" for name in ("train", "valid", "test"))
    how = "at random" if split == RANDOM else f"by `{split}`"
    parts = [f"The data set has no splits, so its {rows:,} rows{without} were split {how}: {sizes}."]
    parts += ["Every entity and predicate is in train."] if split == RANDOM else [detail] if detail else []
    if twins := counts.get("drawn_twins", 0):
        parts.append(f"{twins:,} facts that follow from others are in the same split as these.")
    if left_out := counts.get("drawn_left_out", 0):
        parts.append(f"{left_out:,} rows that would mix the splits are in none.")
    return " ".join(parts)


def label_notes(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence about the new labels that belong to the exam; none if there are no such labels."""
    exam = counts.get("labels_for_exam", 0)
    if not exam:
        return []
    return [
        f"{exam:,} of the {exam + counts['labels_rows']:,} new labels belong to the exam of `kgcal promote`. They are "
        "not used for calibration."
    ]


def _overlap_notes(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence about the rows of valid and test that another split has too; none if there are no such rows."""
    left_out = {name: counts.get(f"{name}_left_out", 0) for name in ("valid", "test")}
    if any(left_out.values()):
        others = {"valid": "train or test", "test": "train"}
        texts = [
            f"{count:,} {name} row{'' if count == 1 else 's'} that {others[name]} has too"
            for name, count in left_out.items()
            if count
        ]
        return [f"Left out: {', and '.join(texts)}."]
    shared = {name: count for name, count in counts.items() if count and "_positives_in_" in name}
    texts = [f"{count:,} {count_title(name)}" for name, count in shared.items()]
    return [f"Not held out, but kept in this data set: {', '.join(texts)}."] if texts else []


def hidden_fact_notes(share: float, figures: Mapping[str, float]) -> list[str]:
    """Return a sentence if many of the corruptions that calibrators are fitted to are true; none if few are.

    share    the share of validation corruptions, by weight, that are facts of test
    figures  the audit of the synthetic sample, with the estimated share of true corruptions, if it was estimated
    """
    hidden = HiddenShare.of_figures(figures)
    if max(share, hidden.share if hidden else 0.0) < MANY_HIDDEN:
        return []
    if hidden:
        return [f"{hidden.sentence()} The estimate uses no fact of test: {100 * share:.2g} % are facts of test."]
    return [
        f"{100 * share:.0f} % of the corruptions that synthetic calibrators are fitted to are facts of test. No fit "
        "may know this, so they count as false, and the probabilities of true triples are too low. Facts that are in "
        "no split have the same effect. Labelled triples do not: run `kgcal recalibrate --labels FILE`."
    ]


def completeness_notes(completeness: str, corrupted: bool) -> list[str]:
    """Return what a stated completeness means for the results; nothing if they are measured on labelled negatives.

    completeness  share of the true facts that the graph knows, or `by predicate`; '': not stated
    corrupted     whether the negatives of test are corruptions
    """
    if not corrupted or not completeness:
        return []
    return [
        f"The graph is stated to be incomplete (completeness {completeness}). So some corruptions of test are true, "
        "but they count as false here: probabilities that are right look too high. Labelled triples show how good they "
        "are."
    ]


def score_notes(cohort_weight: float) -> list[str]:
    """Return a sentence that says which scores probabilities and ranks are of; none if there is only one score.

    cohort_weight  weight of the cohort level in the scores: see kgcore/embed/models/cohort.py. 0: scores are raw
    """
    if not cohort_weight:
        return []
    return [
        "Probabilities are of the cohort-normalised score f'; ranks and the row `uncalibrated raw`, which is the "
        "paper's uncalibrated probability, are of the raw score f."
    ]


def shown_settings(settings: Mapping[str, Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    """Return stage -> its settings, without the settings of the graph that its kind of data set does not use."""
    shown: dict[str, Mapping[str, object]] = {}
    for stage, values in settings.items():
        name, unused = values.get("dataset"), set[str]()
        if name is not None:
            declared = name in DATASETS.names()
            generated = declared and DATASETS.get(str(name)).generate is not None
            unused = {*(() if generated else GENERATION), *(OWN if declared else ())}
        shown[stage] = {setting: value for setting, value in values.items() if setting not in unused}
    return shown


def html(template: str, **values: object) -> str:
    """Return a page as HTML. `template` is a file of this folder, `values` what it uses."""
    import jinja2

    loader = jinja2.PackageLoader("kgcore.measure.report", ".")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(template).render(**values)


def coded(sentence: str) -> "Markup":
    """Return a sentence as HTML, in which what stands between backticks is code."""
    from markupsafe import Markup, escape

    parts = (escape(part) for part in sentence.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(p) if number % 2 else p for number, p in enumerate(parts))


def svg(figure: "Figure") -> "Markup":
    """Convert a figure to an inline SVG element. The same plotted values always give the same bytes."""
    import matplotlib
    from markupsafe import Markup

    buffer = io.StringIO()
    with _SVG, matplotlib.rc_context({"svg.hashsalt": "kgcal"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # noqa: S704 (matplotlib's own output)
