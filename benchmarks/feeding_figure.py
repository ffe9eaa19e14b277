"""How many images per second JADE's loader feeds, over ``DataLoader``."""

from benchmarks import feeding
from benchmarks.figures import Figure

TARGET = 30.0


def measure(*, quick: bool = False) -> list[Figure]:
    """Measure 60,000 images of 28x28, batches of 256, as torchvision's MNIST reads them."""
    import torch

    torch.set_num_threads(1)
    figures = feeding.measure_images(2 if quick else 7)
    ours, theirs = (figures[f"images_per_s_{name}"] for name in ("tensorloader", "dataloader"))
    return [
        Figure(
            "feeding",
            "images per second of JADE's loader over DataLoader's",
            figures["images_ratio"],
            "x",
            at_least=TARGET,
            note=f"{ours:,.0f} over {theirs:,.0f}; read once {figures['images_read_once_s']:.1f} s",
        )
    ]
