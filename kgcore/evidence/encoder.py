"""Vectors of names from a sentence encoder in a folder of the user. Nothing is downloaded."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from kgcore.arrays import Floats
from kgcore.errors import InputError, first_line
from kgcore.evidence.encoder_files import check_encoder
from kgcore.evidence.name_embeddings import FOLDS, folds_of
from kgcore.evidence.words import words_of
from kgcore.models.trained import TrainedModel

AT_ONCE = 256  # names of a batch
PENALTY = 1.0  # of the squared coefficients, for vectors of length 1
FEWEST = 10  # names with words that an estimate needs


def vectors_of(names: Sequence[str], folder: Path, device: torch.device) -> Floats:
    """Return the vectors (n, d) that the encoder in the folder gives the words of names; NaN for names without words.

    folder  a model of sentence-transformers, with all of its files

    Raises InputError if the folder has no such model, or if the package sentence-transformers is missing.
    """
    check_encoder(folder)
    from sentence_transformers import SentenceTransformer  # an optional package, which takes seconds to load

    try:
        encoder = SentenceTransformer(str(folder), device=str(device), local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder} cannot be read as a model of sentence-transformers: {first_line(error)}") from error
    texts = [" ".join(words_of(name)) for name in names]
    named = np.array([bool(text) for text in texts])
    distinct, places = np.unique([text for text in texts if text], return_inverse=True)
    if not len(distinct):
        raise InputError("no entity has a name with words: a sentence encoder has nothing to read")
    found = encoder.encode(distinct.tolist(), batch_size=AT_ONCE, convert_to_numpy=True, show_progress_bar=False)
    vectors = np.full((len(names), found.shape[1]), np.nan)
    vectors[named] = found[places]
    return vectors


def with_estimates(trained: TrainedModel, vectors: Floats) -> TrainedModel:
    """Return the model with estimated embeddings at the end of its table of entities: the ids E, ..., 2 E - 1.

    vectors  (E, d) vectors of the names; NaN: the name has none, and neither has the estimate

    The estimates are a ridge regression of the embeddings on the vectors,

        e^ = m + (v - mean v)' B,   B = argmin |E - m - V B|^2 + PENALTY |B|^2,

    where m is the mean embedding. The estimates of one of FOLDS parts of the entities are made from the other parts: an
    entity's own embedding has no effect on its estimate. Scores are raw: without a cohort.

    Raises InputError if fewer than FEWEST names have a vector.
    """
    tables, named = trained.embeddings, ~np.isnan(vectors[:, 0])
    if named.sum() < FEWEST:
        raise InputError(f"{int(named.sum())} entities have names with words: a sentence encoder needs {FEWEST}")
    table, folds = tables.entities.detach().cpu().numpy().astype(np.float64), folds_of(len(vectors))
    mean, centred = table.mean(axis=0), vectors - vectors[named].mean(axis=0)
    estimates = np.full(table.shape, np.nan)
    for fold in range(FOLDS):
        rows = centred[named & (folds != fold)]
        penalised = rows.T @ rows + PENALTY * np.eye(rows.shape[1])
        coefficients = np.linalg.solve(penalised, rows.T @ (table[named & (folds != fold)] - mean))
        estimates[folds == fold] = mean + centred[folds == fold] @ coefficients
    entities = torch.cat([tables.entities, torch.from_numpy(estimates).to(tables.entities)])
    return replace(trained, embeddings=replace(tables, entities=entities), cohort=None)
