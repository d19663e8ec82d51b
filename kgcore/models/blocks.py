"""Blocks of one fixed shape, so that no bit of a score depends on the other triples that are scored with it.

A matrix product or a convolution adds its terms in an order that depends on the shapes of its operands, and on their
rows beyond a multiple of the kernel's size. With one shape for all blocks, and sizes that are multiples of `MULTIPLE`,
the order is the same for every row. So a triple has the same score alone, in a file of millions, and in an evaluation.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

MULTIPLE = 64  # of the rows of an operand: the largest panel of rows of the kernels of oneDNN and MKL is smaller
SCORE_ROWS = 1024  # triples per block: their embeddings fit in a CPU's cache


def block_rows(most: int, largest: int) -> int:
    """Return the number of rows of a block: `most`, or a smaller multiple of MULTIPLE that does not exceed `largest`.

    If not even MULTIPLE rows fit, it is MULTIPLE.
    """
    return max(MULTIPLE, min(most, largest // MULTIPLE * MULTIPLE))


def fixed_blocks(ids: Tensor, rows: int) -> Iterator[tuple[Tensor, int]]:
    """Divide ids (n, ...) into blocks of exactly `rows` rows. Yield each block and the number of its own rows.

    The last block is filled up with copies of its first row, which come after its own rows.
    """
    for block in torch.split(ids, rows) if len(ids) else ():
        count = len(block)
        yield (torch.cat([block, block[:1].expand(rows - count, *block.shape[1:])]) if count < rows else block), count
