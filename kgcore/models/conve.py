"""ConvE: subject and predicate are laid out as one image; its 2D convolution says what a fitting object looks like."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, relu

from kgcore.arrays import Floats
from kgcore.errors import InputError
from kgcore.models.base import Model, whole
from kgcore.registries import MODELS


@MODELS.register("conve")
class ConvE(Model):
    """f(s, p, o) = relu(vec(relu([s; r] * F + a)) W + b) . o, [s; r] the two reshaped to images, one above the other.

    Dettmers et al., "Convolutional 2D Knowledge Graph Embeddings", AAAI 2018, equation 1, with a bias of the filters
    and of the projection as in its published code. No dropout within, no batch normalisation, no bias of an entity.
    Embeddings: (k,) real for entities and predicates; shared: the filters F, the projection W and their biases. Range:
    all reals.
    The object side is one query for all candidates. The subject side convolves every candidate: train with inverse
    relations, as the authors did, or with an object_share of 1, to be spared that.

    filters  number of filters
    kernel   their height and width; 3 by default, less where the image is smaller
    height   rows of a reshaped embedding, a divisor of k; by default the largest that makes it no higher than wide
    """

    scale = 0.5

    def __init__(self, k: int, filters: float = 32, kernel: float | None = None, height: float | None = None) -> None:
        super().__init__(k)
        self.filters = whole("filters", filters)
        fitting = max(h for h in range(1, math.isqrt(k) + 1) if k % h == 0)
        self.height = fitting if height is None else whole("height", height)
        if k % self.height:
            raise InputError(f"height is {self.height}: it must divide k, which is {k}")
        image = 2 * self.height, k // self.height
        self.kernel = min(3, *image) if kernel is None else whole("kernel", kernel)
        if self.kernel > min(image):
            raise InputError(f"kernel is {self.kernel}: it must fit in the image of {image[0]} x {image[1]}")
        self.map_size = (image[0] - self.kernel + 1) * (image[1] - self.kernel + 1)

    @property
    def pair_width(self) -> int:
        return self.filters * self.map_size

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        patch, maps = self.kernel**2, self.filters * self.map_size
        filters = rng.uniform(-1, 1, (self.filters, 1, self.kernel, self.kernel)) * math.sqrt(6 / patch)
        projection = rng.uniform(-1, 1, (maps, self.k)) * math.sqrt(6 / maps)
        biases = {"filter_bias": np.zeros(self.filters), "projection_bias": np.zeros(self.k)}
        return {"filters": filters, "projection": projection} | biases

    def _object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        s, p = torch.broadcast_tensors(subjects, predicates)  # type: ignore[no-untyped-call]
        images = torch.cat([s, p], -1).reshape(-1, 1, 2 * self.height, self.k // self.height)
        maps = relu(conv2d(images, self.shared["filters"], self.shared["filter_bias"]))
        return relu(maps.flatten(1) @ self.shared["projection"] + self.shared["projection_bias"]).view(s.shape)

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        return (self._object_query(subjects, predicates) * objects).sum(-1)

    def score_objects(self, subjects: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        return self._object_query(subjects, predicates) @ candidates.mT
