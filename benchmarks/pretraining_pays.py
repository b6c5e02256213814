"""What pretraining is worth: one task from pretrained and from random weights, with few examples and with many.

python benchmarks/pretraining_pays.py --data FOLDER --model RUN/model --out pays.png
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from bertkit import device
from bertkit.interop.folder import ModelFolder
from bertkit.report.learning_picture import draw_learning_curve
from bertkit.tasks import task_called
from bertkit.tasks.task import Reading
from bertkit.training.fit import FitSettings
from bertkit.training.learning_curve import Point, learning_curve

CASES = {
    "SST-2": ("classify", "glue/SST-2/train.tsv", "glue/SST-2/dev.tsv"),
    "CoNLL-2003": ("tag", "conll2003/train.txt", "conll2003/dev.txt"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a model that bertkit pretrained")
    parser.add_argument("--case", choices=CASES, default="SST-2")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 0], help="0: all")
    parser.add_argument("--seeds", type=int, default=3, help="of all but the largest, which has one")
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    options = parser.parse_args()
    name, train_file, dev_file = CASES[options.case]
    kind = task_called(name)
    train, dev = (list(kind.read(str(options.data / file), Reading(), [])) for file in (train_file, dev_file))
    task = kind.for_examples(train, max_length=128)
    width = ModelFolder(options.model).config.hidden_size
    device.apply(device.choose("cpu"))

    def said(point: Point) -> None:
        print(json.dumps(vars(point)), file=sys.stderr, flush=True)

    points = []
    for size in options.sizes:
        count = size or len(train)
        settings = FitSettings.usual(width=width, units=count)
        seeds = 1 if count == len(train) else options.seeds
        points += learning_curve(
            options.model, task, train, dev, sizes=[count], settings=settings, seeds=seeds, said=said
        )
    draw_learning_curve(points, task.main_metric, options.case, options.out)
    means = {f"{point.start} {point.examples}": round(statistics.fmean(point.scores), 4) for point in points}
    print(json.dumps({"benchmark": "pretraining_pays", "case": options.case, task.main_metric: means}))


if __name__ == "__main__":
    main()
