"""Scoring functions against second formulas, and what the contract promises for every registered one."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.signal import correlate2d
from scipy.stats import norm as normal

from kgcore import storage
from kgcore.errors import InputError
from kgcore.models import MODELS, base
from kgcore.models.base import Embeddings, GraphModel, Model, QueryModel
from kgcore.models.inverse import BothWays
from kgcore.models.trained import TrainedModel
from kgcore.registry import build

K = 8


def transe(s, p, o, norm=1):
    return -np.linalg.norm(s + p - o, ord=norm)


def distmult(s, p, o):
    return float(s @ np.diag(p) @ o)


def as_complex(*vectors):
    return [v[: len(v) // 2] + 1j * v[len(v) // 2 :] for v in vectors]


def complex_(s, p, o):
    s, p, o = as_complex(s, p, o)
    return float((s * p * o.conj()).sum().real)


def hole(s, p, o):
    return sum(p[j] * s[i] * o[(i + j) % K] for i in range(K) for j in range(K))


def hole_complex(s, p, o):
    """HolE itself, of the real vectors whose spectra are s, r, o: by Parseval n / 2 of it is ComplEx."""
    n = 2 * K + 1

    def signal(v):
        return np.fft.irfft(np.r_[0, v], n=n)

    s, p, o = (signal(v) for v in as_complex(s, p, o))
    return 2 / K * n / 2 * sum(p[j] * s[i] * o[(i + j) % n] for i in range(n) for j in range(n))


def rotate(s, p, o):
    s, o = as_complex(s, o)
    return -sum(abs(a * np.exp(1j * phase) - b) for a, phase, b in zip(s, p, o, strict=True))


def rescal(s, p, o):
    return sum(s[i] * p[i * K + j] * o[j] for i in range(K) for j in range(K))


def simple(s, p, o):
    h_s, t_s, h_o, t_o, r, inverse = s[:K], s[K:], o[:K], o[K:], p[:K], p[K:]
    return (h_s @ np.diag(r) @ t_o + h_o @ np.diag(inverse) @ t_s) / 2


def analogy(s, p, o):
    """s^T M o with the normal matrix itself: scalars on the diagonal, then blocks ((a, b), (-b, a))."""
    matrix = np.diag(np.r_[p[: 2 * K], np.zeros(2 * K)])
    for j in range(K):
        re, im = 2 * K + j, 3 * K + j
        matrix[re, re] = matrix[im, im] = p[re]
        matrix[re, im], matrix[im, re] = p[im], -p[im]
    assert np.allclose(matrix @ matrix.T, matrix.T @ matrix)
    return s @ matrix @ o


def tucker(s, p, o, core):
    return sum(core[a, b, c] * s[a] * p[b] * o[c] for a, b, c in itertools.product(*map(range, core.shape)))


def quate(s, p, o):
    """Quaternions as complex 2 x 2 matrices: their product is the matrices', half their trace the real part."""

    def matrices(v):
        return [np.array([[a + 1j * b, c + 1j * d], [-c + 1j * d, a - 1j * b]]) for a, b, c, d in v.reshape(4, K).T]

    score = 0
    for a, r, b in zip(matrices(s), matrices(p), matrices(o), strict=True):
        turned = a @ (r / np.sqrt(np.linalg.det(r)))
        score += np.trace(turned @ b.conj().T).real / 2
    return score


def toruse(s, p, o, norm=1):
    """The nearest of the points o + n, over whole n."""
    near = [min(abs(d + n) for n in range(-40, 41)) for d in s + p - o]
    return -sum((2 * d) ** norm for d in near)


def kg2e(s, p, o, likelihood=0):
    """The integrals themselves, one component at a time."""

    def gaussians(v):
        return v[:K], 0.05 + np.log1p(np.exp(v[K:]))

    (m_s, v_s), (m_r, v_r), (m_o, v_o) = gaussians(s), gaussians(p), gaussians(o)
    score = 0.0
    for m_e, v_e, m, v in zip(m_s - m_o, v_s + v_o, m_r, v_r, strict=True):
        e, r = normal(m_e, np.sqrt(v_e)), normal(m, np.sqrt(v))
        limits = m_e - 12 * np.sqrt(v_e), m_e + 12 * np.sqrt(v_e)
        if likelihood:
            score += np.log(quad(lambda x, e=e, r=r: e.pdf(x) * r.pdf(x), *limits, points=[m_e, m], epsrel=1e-9)[0])
        else:
            score -= quad(
                lambda x, e=e, r=r: e.pdf(x) * (e.logpdf(x) - r.logpdf(x)), *limits, points=[m_e], epsrel=1e-9
            )[0]
    return score


def conve(s, p, o, filters, projection, filter_bias, projection_bias):
    image = np.vstack([s.reshape(2, 4), p.reshape(2, 4)])  # K = 8
    maps = [correlate2d(image, f, mode="valid") + b for (f,), b in zip(filters, filter_bias, strict=True)]
    hidden = np.maximum(np.ravel(maps), 0) @ projection + projection_bias
    return np.maximum(hidden, 0) @ o


def convkb(s, p, o, filters, bias, weights):
    columns = np.stack([s, p, o], axis=1)
    return sum(
        weights[f, i] * max(0.0, columns[i] @ filters[f] + bias[f]) for f in range(len(filters)) for i in range(K)
    )


def capse(s, p, o, filters, bias, votes, routings=1, log_odds=1):
    """The routing of the publication, a vote at a time."""

    def squash(v):
        return np.linalg.norm(v) ** 2 / (1 + np.linalg.norm(v) ** 2) * v / np.linalg.norm(v)

    capsules = np.maximum(np.stack([s, p, o], axis=1) @ filters.T + bias, 0)  # (K, filters)
    votes = [capsules[i] @ votes[:, i, :] for i in range(K)]
    b = np.zeros(K)
    for _ in range(int(routings)):
        c = np.exp(b) / np.exp(b).sum()
        e = squash(sum(c[i] * votes[i] for i in range(K)))
        b = b + np.array([vote @ e for vote in votes])
    length = np.linalg.norm(e)
    return np.log(length / (1 - length)) if log_odds else length


def kbgat(s, p, o, filters, bias, weights, **encoder):
    return convkb(s, p, o, filters, bias, weights)  # of encoded rows


def encoded(entities, predicates, triples, numbers):
    """KBGAT's two layers, an entity and a triple at a time."""

    def elu(x):
        return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)

    def layer(entities, predicates, weights, attention):
        told = np.zeros((len(entities), len(weights), K))
        for entity, head in itertools.product(range(len(entities)), range(len(weights))):
            around = [np.r_[entities[o], entities[s], predicates[p]] for s, p, o in triples if o == entity]
            c = [row @ weights[head] for row in around]
            logits = [attention[head] @ row for row in c]
            shares = np.exp([logit if logit > 0 else 0.2 * logit for logit in logits])
            for share, row in zip(shares / shares.sum(), c, strict=True):
                told[entity, head] += share * row
        return elu(told.reshape(len(entities), -1))

    hidden = layer(entities, predicates, numbers["encoder.weights1"], numbers["encoder.attention1"])
    predicates = predicates @ numbers["encoder.predicate_map"]
    told = layer(hidden, predicates, numbers["encoder.weights2"], numbers["encoder.attention2"])
    return entities @ numbers["encoder.entity_map"] + told, predicates


SECOND_FORMULA = {
    "analogy": analogy,
    "capse": capse,
    "complex": complex_,
    "conve": conve,
    "convkb": convkb,
    "distmult": distmult,
    "hole": hole,
    "hole_complex": hole_complex,
    "kbgat": kbgat,
    "kg2e": kg2e,
    "quate": quate,
    "rescal": rescal,
    "rotate": rotate,
    "simple": simple,
    "toruse": toruse,
    "transe": transe,
    "tucker": tucker,
}
FEW = {name: {"filters": 3} for name in ("capse", "conve", "convkb", "kbgat")}  # so that tests are fast
OPTIONS = [
    ("transe", {"norm": 2}),
    ("toruse", {"norm": 2}),
    ("kg2e", {"likelihood": 1}),
    ("tucker", {"predicate_size": 3}),
    ("capse", {"filters": 3, "routings": 3}),
    ("capse", {"filters": 3, "log_odds": 0}),
]
CASES = [(name, FEW.get(name, {})) for name in MODELS.names()] + OPTIONS


def bound(name: str, options: dict[str, float] | None = None, k: int = K) -> Model:
    """The model with shared numbers, if it has any, in double precision and none of them zero."""
    model: Model = build(MODELS.get(name), options or {}, k)
    rng = np.random.default_rng(3)
    start = model.initial_shared(rng)
    shared = {key: torch.from_numpy(value + rng.normal(0, 0.1, value.shape)) for key, value in start.items()}
    return model.bound(shared)


def rows(model: Model, n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    widths = (model.entity_width, model.predicate_width, model.entity_width)
    s, p, o = (torch.randn(n, width, generator=generator, dtype=torch.float64) for width in widths)
    return s, p, o


BOTH_WAYS = [(name, FEW.get(name, {}), True) for name in ("transe", "complex", "rescal", "conve")]


@pytest.fixture(
    params=[(*case, False) for case in CASES] + BOTH_WAYS,
    ids=lambda case: "-".join(
        [case[0], *(case[1] if case[:2] in OPTIONS else ()), *(["both-ways"] if case[2] else ())]
    ),
)
def model(request: pytest.FixtureRequest) -> Model:
    name, options, both_ways = request.param
    return BothWays(bound(name, options)) if both_ways else bound(name, options)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_score_is_the_second_formula(name: str, options: dict[str, float]) -> None:
    model = bound(name, options)
    s, p, o = rows(model, 5)
    numbers = {key: tensor.numpy() for key, tensor in model.shared.items()}
    numbers |= {key: value for key, value in options.items() if key in ("norm", "likelihood", "routings", "log_odds")}
    second = SECOND_FORMULA[name]  # a model without one fails here
    expected = [second(*(v.numpy() for v in triple), **numbers) for triple in zip(s, p, o, strict=True)]
    np.testing.assert_allclose(model.score(s, p, o), expected, rtol=1e-6)


def test_transe_by_hand() -> None:
    model = build(MODELS.get("transe"), {}, 2)
    s, p, o = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, -1.0]]), torch.tensor([[1.0, 3.0]])
    assert model.score(s, p, o).item() == -2.5


def test_rotate_by_hand() -> None:
    """A quarter turn takes 3 to 3i, which is 5 from 4; half a turn takes 1 + i to -1 - i, which is there already."""
    s, o = torch.tensor([3.0, 1.0, 0.0, 1.0]), torch.tensor([4.0, -1.0, 0.0, -1.0])
    p = torch.tensor([torch.pi / 2, torch.pi])
    assert bound("rotate", k=2).score(s, p, o).item() == pytest.approx(-5, abs=1e-5)


def test_toruse_by_hand() -> None:
    """0.75 + 0.5 lies at 0.25, a quarter of the circle from 0.0 and from 3.0; 0.9 and 0.1 are 0.2 apart."""
    s, p, o = torch.tensor([0.75, 0.75, 0.9]), torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.0, 3.0, 0.1])
    assert bound("toruse", k=3).score(s, p, o).item() == pytest.approx(-(0.5 + 0.5 + 0.4))
    assert bound("toruse", {"norm": 2}, k=3).score(s, p, o).item() == pytest.approx(-(0.25 + 0.25 + 0.16))


def test_convkb_by_hand() -> None:
    """One filter that translates, 1 + 2 - 4 < 0 and 2 + 3 - 1 = 4, and one that takes the object, less 1."""
    filters = torch.tensor([[1.0, 1.0, -1.0], [0.0, 0.0, 1.0]])
    weights = torch.tensor([[5.0, 10.0], [100.0, 1000.0]])
    shared = {"filters": filters, "bias": torch.tensor([0.0, -1.0]), "weights": weights}
    model = build(MODELS.get("convkb"), {"filters": 2}, 2).bound(shared)
    s, p, o = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 3.0]), torch.tensor([4.0, 1.0])
    assert model.score(s, p, o).item() == 5 * 0 + 10 * 4 + 100 * 3 + 1000 * 0


def test_capse_by_hand() -> None:
    """One filter takes s + r - o = (1, 3): the votes (3, 0) and (0, 12) have the mean (1.5, 6), whose square is 38.25;
    a capsule of zeros has the length 0."""
    votes = torch.tensor([[[3.0, 0.0], [0.0, 4.0]]])
    shared = {"filters": torch.tensor([[1.0, 1.0, -1.0]]), "bias": torch.zeros(1), "votes": votes}
    s, p, o = torch.tensor([2.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])
    options = {"filters": 1, "capsule": 2, "log_odds": 0}
    model = build(MODELS.get("capse"), options, 2).bound(shared)
    assert model.score(s, p, o).item() == pytest.approx(38.25 / 39.25)
    assert model.score(s, p, 9 * o).item() == 0
    assert build(MODELS.get("capse"), {}, 2).bound(shared).score(s, p, o).item() == pytest.approx(np.log(38.25))


@pytest.mark.parametrize("options", [{}, {"routings": 3}])
def test_capse_of_capsules_without_length_has_a_gradient(options: dict[str, float]) -> None:
    for log_odds in (0, 1):
        model = bound("capse", options | {"log_odds": log_odds})
        dead = model.bound(model.shared | {"bias": torch.full((32,), -1e3, dtype=torch.float64)})
        s, p, o = (v.requires_grad_() for v in rows(model, 3))
        gradients = torch.autograd.grad(dead.score(s, p, o).sum(), (s, p, o))
        assert all((gradient == 0).all() for gradient in gradients)


def test_capse_is_a_length_below_1() -> None:
    model = bound("capse", {"routings": 2, "log_odds": 0})
    scores = model.score(*rows(model, 200))
    assert ((scores >= 0) & (scores < 1)).all()


@pytest.mark.parametrize("heads", [1, 3])
def test_kbgat_gathers_from_the_graph_by_attention(rng: np.random.Generator, heads: int) -> None:
    model = bound("kbgat", {"filters": 2, "heads": heads})
    assert isinstance(model, GraphModel)
    entities, predicates, _ = rows(model, 7)
    triples = np.c_[rng.integers(7, size=15), rng.integers(3, size=15), rng.integers(5, size=15)]  # 5, 6: no objects
    triples = np.concatenate([triples, triples[:1]])  # what stands there twice counts twice
    numbers = {key: tensor.numpy() for key, tensor in model.shared.items()}
    expected = encoded(entities.numpy(), predicates[:3].numpy(), triples, numbers)
    for table, second in zip(model.encode(entities, predicates[:3], torch.from_numpy(triples)), expected, strict=True):
        np.testing.assert_allclose(table, second, rtol=1e-9)
    own = model.encode(entities, predicates[:3], torch.zeros(0, 3, dtype=torch.int64))[0]
    np.testing.assert_allclose(own, entities @ model.shared["encoder.entity_map"])


def test_attention_does_not_overflow_and_its_gradients_are_those_of_finite_differences() -> None:
    model = bound("kbgat", {"filters": 2}, k=3)
    assert isinstance(model, GraphModel)
    entities, predicates, _ = rows(model, 4)
    triples = torch.tensor([[0, 0, 1], [2, 1, 1], [3, 0, 1], [1, 1, 0], [0, 0, 3]])
    assert all(table.isfinite().all() for table in model.encode(1e4 * entities, 1e4 * predicates, triples))
    names = [name for name in model.shared if name.startswith("encoder.")]
    leaves = [v.requires_grad_() for v in (entities, predicates[:2], *(model.shared[name] for name in names))]

    def encode(entities: torch.Tensor, predicates: torch.Tensor, *shared: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return model.bound(dict(zip(names, shared, strict=True))).encode(entities, predicates, triples)

    assert torch.autograd.gradcheck(encode, leaves)


def test_both_queries_give_the_score(model: Model) -> None:
    if isinstance(model, QueryModel):
        s, p, o = rows(model, 6)
        by_subject = model.comparator.pairs(model.subject_query(p, o), s)
        np.testing.assert_allclose(by_subject, model.score(s, p, o), rtol=1e-6, atol=1e-9)


def test_scoring_every_entity_is_scoring_one_by_one(model: Model) -> None:
    s, p, o = rows(model, 6)
    objects, subjects = model.score_objects(s, p, o), model.score_subjects(p, o, s)
    for i, j in itertools.product(range(6), repeat=2):
        np.testing.assert_allclose(objects[i, j], model.score(s[i], p[i], o[j]), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(subjects[i, j], model.score(s[j], p[i], o[i]), rtol=1e-5, atol=1e-6)


def test_chunks_are_scored_as_they_are_alone(model: Model) -> None:
    s, p, o = (v.view(2, 3, -1) for v in rows(model, 6))
    for score, query in ((model.score_objects, (s, p, o)), (model.score_subjects, (p, o, s))):
        alone = torch.stack([score(*(v[c] for v in query)) for c in range(2)])
        np.testing.assert_allclose(score(*query), alone, rtol=1e-9)


def test_gradients_are_those_of_finite_differences(model: Model) -> None:
    s, p, o = (v.requires_grad_() for v in rows(model, 2))
    names, shared = list(model.shared), [tensor.requires_grad_() for tensor in model.shared.values()]

    def by(method: str):
        return lambda *v: getattr(model.bound(dict(zip(names, v[3:], strict=True))), method)(*v[:3])

    assert torch.autograd.gradcheck(by("score"), (s, p, o, *shared))
    assert torch.autograd.gradcheck(by("score_objects"), (s, p, o, *shared))
    assert torch.autograd.gradcheck(by("score_subjects"), (p, o, s, *shared))


def test_gradients_of_the_outer_comparison_are_those_of_pairs(model: Model) -> None:
    if not isinstance(model, QueryModel):
        return
    s, p, o = (v.requires_grad_() for v in rows(model, 4))
    weights = torch.arange(16, dtype=torch.float64).reshape(4, 4)
    outer = (model.comparator.outer(model.object_query(s, p), o) * weights).sum()
    pairs = (model.comparator.pairs(model.object_query(s, p).unsqueeze(1), o.unsqueeze(0)) * weights).sum()
    for a, b in zip(torch.autograd.grad(outer, (s, p, o)), torch.autograd.grad(pairs, (s, p, o)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_an_unknown_option_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"TransE has no option 'nrom': it has norm"):
        build(MODELS.get("transe"), {"nrom": 2}, K)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("transe", {"norm": 3}, "norm is 3: it must be 1 or 2"),
        ("toruse", {"norm": 0}, "norm is 0: it must be 1 or 2"),
        ("kg2e", {"likelihood": 0.5}, r"likelihood is 0\.5: it must be 0 or 1"),
        ("tucker", {"predicate_size": 1.5}, r"predicate_size is 1\.5: it must be a whole number of at least 1"),
        ("convkb", {"filters": 0}, "filters is 0: it must be a whole number of at least 1"),
        ("convkb", {"filters": float("nan")}, "filters is nan: it must be a whole number"),
        ("capse", {"capsule": 0}, "capsule is 0: it must be a whole number of at least 1"),
        ("capse", {"routings": 1.5}, r"routings is 1\.5: it must be a whole number of at least 1"),
        ("capse", {"log_odds": 2}, "log_odds is 2: it must be 0 or 1"),
        ("kbgat", {"heads": 0}, "heads is 0: it must be a whole number of at least 1"),
        ("conve", {"height": 3}, "height is 3: it must divide k, which is 8"),
        ("conve", {"kernel": 5}, "kernel is 5: it must fit in the image of 4 x 4"),
    ],
)
def test_an_option_that_cannot_be_is_refused(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(MODELS.get(name), options, K)


@pytest.mark.parametrize("name", MODELS.names())
@pytest.mark.parametrize("k", [1, 2, 7])
def test_every_k_works(name: str, k: int) -> None:
    model = bound(name, k=k)
    assert model.score(*rows(model, 3)).shape == (3,)


@pytest.mark.parametrize("name", MODELS.names())
def test_a_stored_model_scores_the_same(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    model = bound(name)
    entities, predicates, _ = (table.float() for table in rows(model, 12))
    shared = {key: tensor.float() for key, tensor in model.shared.items()}
    trained = TrainedModel(name, K, Embeddings(entities, predicates, shared))
    storage.write_model(tmp_path, trained)
    read = storage.read_model(tmp_path)
    triples = rng.integers(12, size=(20, 3))
    np.testing.assert_array_equal(read.score(triples), trained.score(triples))
    assert read.fingerprint() == trained.fingerprint()


def test_blocks_do_not_change_scores_and_the_fingerprint_sees_every_number(rng: np.random.Generator) -> None:
    tables = Embeddings(torch.randn(10, K), torch.randn(2, K))
    trained = TrainedModel("transe", K, tables)
    triples = np.c_[rng.integers(10, size=33), rng.integers(2, size=33), rng.integers(10, size=33)]
    np.testing.assert_array_equal(trained.score(triples), trained.score(triples, rows=4))
    assert trained.score(triples).dtype == np.float64
    changed = tables.entities.clone()
    changed[9, 7] += 1e-6 + changed[9, 7].abs() * 1e-6
    assert TrainedModel("transe", K, Embeddings(changed, tables.predicates)).fingerprint() != trained.fingerprint()
    assert TrainedModel("transe", K, tables, {"norm": 2}).fingerprint() != trained.fingerprint()


@pytest.mark.parametrize("compiler", [True, False])
def test_l1_in_tiles_is_l1(monkeypatch: pytest.MonkeyPatch, compiler: bool) -> None:
    if not compiler:
        monkeypatch.setattr(
            base, "_l1_kernel", lambda width: lambda queries, columns: torch.cdist(queries, columns.T, p=1)
        )
    monkeypatch.setattr(base, "TILED_FROM", 0)
    queries, entities = torch.randn(300, 6), torch.randn(base.TILE_ENTITIES + 5, 6)
    with torch.inference_mode():
        tiled = base.NegativeDistance(1).outer(queries, entities)
        torch.testing.assert_close(tiled, -torch.cdist(queries, entities, p=1))
