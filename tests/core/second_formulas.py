"""Every scoring function, written a second time in NumPy; the tests of models compare with it.

Each function takes the embeddings of one triple, then the options and shared numbers that change the score.
"""

import itertools

import numpy as np
from scipy.integrate import trapezoid
from scipy.signal import correlate2d
from scipy.stats import norm as normal

K = 8  # the embedding size


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
    """Return HolE of the real vectors with the spectra s, r, o. By Parseval, ComplEx is n / 2 times this score."""
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
    """Return s^T M o with the full normal matrix: scalars on the diagonal, then blocks ((a, b), (-b, a))."""
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
    """Compute quaternions as complex 2 x 2 matrices: a product is a matrix product, the real part is half the trace."""

    def matrices(v):
        return [np.array([[a + 1j * b, c + 1j * d], [-c + 1j * d, a - 1j * b]]) for a, b, c, d in v.reshape(4, K).T]

    score = 0
    for a, r, b in zip(matrices(s), matrices(p), matrices(o), strict=True):
        turned = a @ (r / np.sqrt(np.linalg.det(r)))
        score += np.trace(turned @ b.conj().T).real / 2
    return score


def toruse(s, p, o, norm=1):
    """Return the distance to the nearest of the points o + n, for integers n."""
    near = [min(abs(d + n) for n in range(-40, 41)) for d in s + p - o]
    return -sum((2 * d) ** norm for d in near)


def kg2e(s, p, o, likelihood=False):
    """Compute the integrals by the trapezoidal rule, one component at a time."""

    def gaussians(v):
        return v[:K], 0.05 + np.log1p(np.exp(v[K:]))

    (m_s, v_s), (m_r, v_r), (m_o, v_o) = gaussians(s), gaussians(p), gaussians(o)
    score = 0.0
    for m_e, v_e, m, v in zip(m_s - m_o, v_s + v_o, m_r, v_r, strict=True):
        e, r = normal(m_e, np.sqrt(v_e)), normal(m, np.sqrt(v))
        x = np.linspace(m_e - 12 * np.sqrt(v_e), m_e + 12 * np.sqrt(v_e), 2_001)
        if likelihood:
            score += np.log(trapezoid(e.pdf(x) * r.pdf(x), x))
        else:
            score -= trapezoid(e.pdf(x) * (e.logpdf(x) - r.logpdf(x)), x)
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


def capse(s, p, o, filters, bias, votes, routings=1, log_odds=True):
    """Compute the routing of the publication, one vote at a time."""

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
    return convkb(s, p, o, filters, bias, weights)  # of encoded embeddings


def encoded(entities, predicates, triples, numbers):
    """Compute the two layers of KBGAT, one entity and one triple at a time."""

    def elu(x):
        return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)

    def layer(entities, predicates, weights, attention):
        gathered = np.zeros((len(entities), len(weights), K))
        for entity, head in itertools.product(range(len(entities)), range(len(weights))):
            around = [np.r_[entities[o], entities[s], predicates[p]] for s, p, o in triples if o == entity]
            c = [row @ weights[head] for row in around]
            logits = [attention[head] @ row for row in c]
            shares = np.exp([logit if logit > 0 else 0.2 * logit for logit in logits])
            for share, row in zip(shares / shares.sum(), c, strict=True):
                gathered[entity, head] += share * row
        return elu(gathered.reshape(len(entities), -1))

    hidden = layer(entities, predicates, numbers["encoder.weights1"], numbers["encoder.attention1"])
    predicates = predicates @ numbers["encoder.predicate_map"]
    second = layer(hidden, predicates, numbers["encoder.weights2"], numbers["encoder.attention2"])
    return entities @ numbers["encoder.entity_map"] + second, predicates


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
