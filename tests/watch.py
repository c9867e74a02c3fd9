"""Records operations that would make the host wait for a GPU, how many start a kernel, and the largest tensor."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Operations that read a value, or have an output whose size depends on values; eigh reads its error code on CUDA.
READS = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal",
    "is_nonzero", "bincount", "linalg_eigh", "_linalg_eigh", "_linalg_svd", "linalg_cholesky",
}  # fmt: skip


ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "_unsafe_view"}


def reads_values(func, args, kwargs):
    name = func.overloadpacket.__name__
    if name == "index":                                         # x[mask] has as many rows as the mask has ones
        return any(isinstance(index, torch.Tensor) and index.dtype == torch.bool for index in args[1])
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None
    return name in READS


def starts_kernel(func):
    """Whether an operation computes something: not a view, an allocation or another name for the same tensor."""
    return not (func.is_view or func.overloadpacket.__name__ in ALLOCATIONS)


class Watch(TorchDispatchMode):
    """Records host reads, kernels and the largest tensor created by any operation, forward and backward."""

    def __init__(self):
        super().__init__()
        self.reads, self.kernels, self.largest, self.maker = [], 0, 0, None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if reads_values(func, args, kwargs or {}):
            self.reads.append(str(func))
        self.kernels += starts_kernel(func)
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                parts = [tensor.values(), tensor.col_indices()] if tensor.layout == torch.sparse_csr else [tensor]
                size = max(part.untyped_storage().nbytes() // part.itemsize for part in parts)
                if size > self.largest:
                    self.largest, self.maker = size, str(func)
        return out
