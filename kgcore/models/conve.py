"""ConvE: a 2D convolution of subject and predicate, arranged as an image, gives the point to compare objects with."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, relu

from kgcore.arrays import Floats
from kgcore.errors import InputError
from kgcore.models.base import Model
from kgcore.models.options import CHOSEN_FROM_K, Chosen, whole
from kgcore.registries import MODELS


@MODELS.register("conve")
class ConvE(Model):
    """f(s, p, o) = relu(vec(relu([s; r] * F + a)) W + b) . o, where [s; r] is the image of s above the image of r.

    Dettmers et al., "Convolutional 2D Knowledge Graph Embeddings", AAAI 2018, equation 1, with a bias of the filters
    and of the projection as in its published code. The scoring function has no dropout, no batch normalisation,
    and no entity bias.
    Embeddings: (k,) real for entities and predicates; shared: the filters F, the projection W and their biases. Range:
    all reals.
    All corrupted objects are compared with one query. Each corrupted subject needs its own convolution. To avoid this
    cost, train with inverse relations, as the authors did, or corrupt only objects.

    filters  number of filters
    kernel   height and width of a filter; by default 3, or the shorter side of the image if that is less
    height   rows of an embedding's image, a divisor of k; by default the largest divisor that is at most sqrt(k)
    """

    scale = 0.5

    def __init__(
        self,
        k: int,
        filters: float = 32,
        kernel: float | Chosen = CHOSEN_FROM_K,
        height: float | Chosen = CHOSEN_FROM_K,
    ) -> None:
        super().__init__(k)
        self.filters = whole("filters", filters)
        fitting = max(h for h in range(1, math.isqrt(k) + 1) if k % h == 0)
        self.height = fitting if height is CHOSEN_FROM_K else whole("height", height)
        if k % self.height:
            raise InputError(f"height is {self.height}: it must divide k, which is {k}")
        image = 2 * self.height, k // self.height
        self.kernel = min(3, *image) if kernel is CHOSEN_FROM_K else whole("kernel", kernel)
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
