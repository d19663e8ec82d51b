"""ConvE: a 2D convolution of subject and predicate, arranged as an image, gives the point to compare objects with."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from kgcore.arrays import Floats
from kgcore.embed.models.base import CHOSEN_FROM_K, Chosen, Model, whole
from kgcore.errors import InputError
from kgcore.registries import MODELS


@MODELS.register("conve")
class ConvE(Model):
    """f(s, p, o) = relu(vec(relu([s; r] * F + a)) W + b) . o, where [s; r] is the image of s above the image of r.

    Dettmers et al., "Convolutional 2D Knowledge Graph Embeddings", AAAI 2018, equation 1, with a bias of the filters
    and of the projection as in its published code. The scoring function has no dropout, no batch normalisation,
    and no entity bias.
    Embeddings: (k,) real for entities and predicates; shared: the filters F, the projection W and their biases. Range:
    all reals.
    A convolution is linear, so the map of [s; r] is a map of s plus a map of r. Only the seam, the few rows of the map
    whose filters see both halves of the image, depends on both. What the other rows add to the product with W is
    computed once for each subject and for each predicate; only the product of the seam is computed for each pair.

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
        width, reach = image[1], min(self.kernel - 1, self.height)  # a filter reaches so far into the other half
        self._width, self._columns = width, width - self.kernel + 1
        self._alone, self._seam = self.height - reach, 2 * reach - self.kernel + 1  # rows of the map
        self._zeros = reach * width

    @property
    def pair_width(self) -> int:
        return self.filters * self._seam * self._columns + 2 * self.k

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        patch, maps = self.kernel**2, self.filters * (2 * self._alone + self._seam) * self._columns
        filters = rng.uniform(-1, 1, (self.filters, 1, self.kernel, self.kernel)) * math.sqrt(6 / patch)
        projection = rng.uniform(-1, 1, (maps, self.k)) * math.sqrt(6 / maps)
        biases = {"filter_bias": np.zeros(self.filters), "projection_bias": np.zeros(self.k)}
        return {"filters": filters, "projection": projection} | biases

    def _object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        by_row = self.shared["projection"].view(self.filters, -1, self._columns, self.k).transpose(0, 1)
        parts = torch.split(by_row, [self._alone, self._seam, self._alone])
        upper, seam, lower = (rows.flatten(0, 2) for rows in parts)
        of_image, bias = self._filter_matrix(), self.shared["filter_bias"].repeat_interleave(self._columns)
        s = self._windows(pad(subjects, (0, self._zeros)))
        r = self._windows(pad(predicates, (self._zeros, 0)))
        s_alone, s_seam = torch.split(s, [self._alone, self._seam], -2)
        r_seam, r_alone = torch.split(r, [self._seam, self._alone], -2)
        of_subjects = (s_alone.contiguous() @ of_image).add_(bias).relu_().flatten(-2) @ upper
        of_predicates = (r_alone.contiguous() @ of_image).add_(bias).relu_().flatten(-2) @ lower
        of_predicates = of_predicates + self.shared["projection_bias"]
        both = (s_seam.contiguous() @ of_image) + (r_seam.contiguous() @ of_image).add_(bias)
        return (both.relu_().flatten(-2) @ seam).add_(of_subjects).add_(of_predicates).relu_()

    def _windows(self, images: Tensor) -> Tensor:
        """Return what the filters see for each row of the map: (..., rows width) -> (..., rows', kernel width)."""
        return images.unfold(-1, self.kernel * self._width, self._width)

    def _filter_matrix(self) -> Tensor:
        """Return the matrix whose product with rows of an image is their convolution: (kernel width, filters columns).

        It has the results for all unit vectors. A product with it takes less time than conv2d, for one channel.
        """
        size = self.kernel * self._width
        filters = self.shared["filters"]
        units = torch.eye(size, dtype=filters.dtype, device=filters.device)
        return conv2d(units.view(size, 1, self.kernel, self._width), filters).flatten(1)

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        return (self._object_query(subjects, predicates) * objects).sum(-1)

    def score_objects(self, subjects: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        return self._object_query(subjects, predicates) @ candidates.mT
