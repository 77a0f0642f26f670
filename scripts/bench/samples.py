"""What a classifier makes of drawn digits: python scripts/bench/samples.py [--runs results/runs/ln2016/fig4]

The mean over 1,000 pictures of the probability that the classifier gives its first choice, for each arm of DRAW's raw
runs (weights kept, the mean over its seeds), for real test digits, and for pictures drawn from the mean image: between
these two lies what was learnt. The classifier is scikit-learn's, one layer of 256, trained on MNIST binarized by its
grey values; every picture is binarized alike. Needs MNIST and binarized MNIST in NORMBENCH_DATA.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from pathlib import Path

import harness
import numpy as np
import torch
from sklearn.neural_network import MLPClassifier

from normbench import data
from normbench.config import compose
from normbench.core.streams import stream
from normbench.models.draw import Draw
from normbench.runs import directory
from normbench.train.weights import trained

COUNT, SEED = 1000, 1


def binarized(shares: np.ndarray, purpose: str) -> np.ndarray:
    return (stream(SEED, "judged samples", purpose).random(shares.shape) < shares).astype(np.float32)


def top(classifier: MLPClassifier, pictures: np.ndarray) -> float:
    return float(classifier.predict_proba(pictures).max(1).mean())


def arms(folder: Path) -> dict[str, list[tuple[int, Draw]]]:
    """Arm -> seed and trained model of each finished run, in the order of the seeds."""
    models: dict[str, list[tuple[int, Draw]]] = defaultdict(list)
    for stored in sorted([*map(directory.read, directory.listed(folder))], key=lambda s: s.path.name):
        if stored.status != "done" or stored.control:
            continue
        config = compose.restore(stored.config, None)
        model, _ = trained(stored.path, config, "last", None)
        models[stored.arm].append((int(config["seed"]), model))
    return models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("results/runs/ln2016/fig4"))
    parser.add_argument("--output", type=Path, default=harness.RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    mnist, binary = (data.load(compose.choice("data", name)) for name in ("mnist", "binarized_mnist"))
    train, test = (mnist.splits[part] for part in ("train", "test"))
    classifier = MLPClassifier((256,), batch_size=200, max_iter=10, random_state=SEED)
    classifier.fit(binarized(train["inputs"].numpy(), "train"), train["targets"].numpy())
    right = classifier.score(binarized(test["inputs"].numpy(), "test"), test["targets"].numpy())
    real = binary.splits["test"]["inputs"][:: len(binary.splits["test"]) // COUNT].numpy()
    mean = np.broadcast_to(binary.splits["train"]["inputs"].mean(0).numpy(), (COUNT, real.shape[1]))
    values = {"real test digits": top(classifier, real), "the mean image": top(classifier, binarized(mean, "mean"))}
    for arm, models in arms(given.runs).items():
        tops = []
        for seed, model in models:
            *_, (canvas, _) = model.eval().dream(SEED, COUNT)
            tops.append(top(classifier, binarized(canvas.sigmoid().numpy(), f"{arm} {seed}")))
        values[f"{arm}, {len(tops)} seeds"] = statistics.mean(tops)
    rows = [
        {"case": case, "unit": "probability", "value": round(value, 4), "goal": None, "reference": None}
        for case, value in values.items()
    ]
    title = f"A classifier's mean top probability on {COUNT} drawn digits (it has {right:.1%} of real ones right)"
    command = f"python scripts/bench/samples.py --runs {given.runs}"
    lines = [f"| {row['case']} | {row['value']:.3f} |" for row in rows]
    page = f"# {title}\n\n| pictures | probability |\n| --- | --- |\n" + "\n".join(lines) + f"\n\n`{command}`\n"
    print(page)
    harness.write("samples", title, command, harness.machine(), rows, page, given.output)


if __name__ == "__main__":
    main()
