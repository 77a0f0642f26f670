"""Makes the files of this folder with the tools themselves: python make.py TOOL; expected.json has what was logged.

Those here are of torch 2.14.1's SummaryWriter (tensorboard 2.21), tensorboardX 2.6.5, lightning 2.6.6, keras 3.15.1,
transformers 5.24 and wandb 0.31.0, in an environment of their own.
"""

import json
import random
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
ARMS = ("ln", "base")


def curve(arm, seed, name, count=6):
    random.seed(f"{arm} {seed} {name}")
    return [1 / (1 + i) + random.random() * 0.1 + (0.05 if arm == "base" else 0) for i in range(count)]


def fresh(name):
    shutil.rmtree(HERE / name, ignore_errors=True)
    (HERE / name).mkdir()
    return HERE / name


def tensorboard():
    from torch.utils.tensorboard import SummaryWriter

    root = fresh("tensorboard")
    for arm in ARMS:
        for seed in (1, 2):
            writer = SummaryWriter(root / f"{arm}_s{seed}")
            writer.add_hparams({"seed": seed, "norm": arm, "lr": 0.1, "note": "${oc.env:HOME}"}, {"hparam/last": 0.5})
            for i, (a, b) in enumerate(zip(curve(arm, seed, "train"), curve(arm, seed, "valid"), strict=False)):
                writer.add_scalar("train/loss", a, 100 * i)
                writer.add_scalar("valid/loss", b, 100 * i)
            writer.add_scalar("train/loss", float("nan") if arm == "base" and seed == 2 else 0.25, 1000)
            writer.add_text("about", "a text", 0)
            writer.add_scalar("lr", 0.0, 0)
            writer.close()


def tensorflow2():
    """Scalars are tensors, and each split has a folder, as Keras' TensorBoard callback writes them."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    root = fresh("tensorflow2")
    for arm in ARMS:
        for seed in (1, 2):
            for split, folder in (("train", "train"), ("valid", "validation")):
                writer = EventFileWriter(str(root / f"{arm}_s{seed}" / folder), filename_suffix=".v2")
                for i, a in enumerate(curve(arm, seed, split)):
                    writer.add_event(Event(wall_time=1.7e9 + i, step=i, summary=scalar_pb("epoch_loss", a)))
                writer.add_event(Event(wall_time=1.7e9 + 6, step=6, summary=scalar_pb("epoch_loss", 0.0)))
                writer.close()


def tensorboardx():
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(str(fresh("tensorboardx") / "ln_s1"))
    for i, a in enumerate(curve("ln", 1, "train")):
        writer.add_scalar("train/loss", a, i)
    writer.close()


def lightning():
    from lightning.pytorch.loggers import CSVLogger

    root = fresh("lightning")
    for arm in ARMS:
        for seed in (1, 2):
            logger = CSVLogger(root, name=f"{arm}-seed{seed}", version=0)
            for i, (a, b) in enumerate(zip(curve(arm, seed, "train"), curve(arm, seed, "valid"), strict=False)):
                logger.log_metrics({"train_loss": a, "epoch": i // 2}, step=10 * i + 9)
                logger.log_metrics({"val_loss": b, "epoch": i // 2}, step=10 * i + 9)
            logger.save()


def keras():
    import os

    os.environ["KERAS_BACKEND"] = "torch"
    from keras.callbacks import CSVLogger

    root = fresh("keras")
    for arm in ARMS:
        for seed in (1, 2):
            logger = CSVLogger(str(root / f"{arm}_s{seed}.csv"))

            class Model:
                stop_training = False

            logger.set_model(Model())
            logger.on_train_begin()
            for i, (a, b) in enumerate(zip(curve(arm, seed, "train"), curve(arm, seed, "valid"), strict=False)):
                logger.on_epoch_end(i, {"loss": a, "val_loss": float("nan") if (arm, i) == ("base", 5) else b})
            logger.on_train_end()


def huggingface():
    from transformers import TrainerState

    root = fresh("huggingface")
    for arm in ARMS:
        for seed in (1, 2):
            state = TrainerState()
            for i, (a, b) in enumerate(zip(curve(arm, seed, "train"), curve(arm, seed, "valid"), strict=False)):
                state.log_history.append({"loss": a, "learning_rate": 0.1, "epoch": (i + 1) / 2, "step": 50 * (i + 1)})
                state.log_history.append(
                    {"eval_loss": b, "eval_runtime": 1.0, "epoch": (i + 1) / 2, "step": 50 * (i + 1)}
                )
                if i == 2:
                    checkpoint = root / f"out-{arm}-seed{seed}" / "checkpoint-150"
                    checkpoint.mkdir(parents=True)
                    state.save_to_json(str(checkpoint / "trainer_state.json"))
            state.log_history.append({"train_runtime": 3.0, "train_loss": 0.5, "epoch": 3.0, "step": 300})
            state.save_to_json(str(root / f"out-{arm}-seed{seed}" / "trainer_state.json"))


def wandb():
    import tempfile

    import wandb as tool

    root = fresh("wandb")
    for arm in ARMS:
        for seed in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                run = tool.init(
                    mode="offline",
                    dir=folder,
                    project="p",
                    config={"model": {"norm": arm}, "seed": seed},
                    settings=tool.Settings(console="off", disable_git=True, x_disable_stats=True, x_disable_meta=True),
                )
                run.define_metric("eval/iter")
                run.define_metric("eval/*", step_metric="eval/iter")
                for i, (a, b) in enumerate(zip(curve(arm, seed, "train"), curve(arm, seed, "valid"), strict=False)):
                    run.log({"train/loss": a, "iter": 10 * i})
                    run.log({"eval/acc": b, "eval/iter": 10 * i})
                run.finish()
                tool.teardown()  # else the file is still on its way
                (found,) = Path(folder).rglob("*.wandb")
                (root / f"offline-run-{arm}{seed}").mkdir()
                shutil.copy(found, root / f"offline-run-{arm}{seed}" / f"run-{arm}{seed}.wandb")


if __name__ == "__main__":
    for tool in sys.argv[1:]:
        globals()[tool]()
    found = {
        f"{arm} {seed} {split}": curve(arm, seed, split)
        for arm in ARMS
        for seed in (1, 2)
        for split in ("train", "valid")
    }
    (HERE / "expected.json").write_text(json.dumps(found, indent=1))
