"""What people write to serve a model: FastAPI around transformers, a text at a time. For serve.py to compare with.

Both ways of writing an endpoint are here: `def`, which FastAPI runs in threads, and `async def`, which computes in the
event loop, one request after another.

    python benchmarks/plain_server.py ENCODER CLASSIFIER PORT
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer


class Asked(BaseModel):
    text: str


def build(encoder_folder: str, classifier_folder: str) -> FastAPI:
    app = FastAPI()
    tokenizer = AutoTokenizer.from_pretrained(encoder_folder)
    encoder = AutoModel.from_pretrained(encoder_folder).eval()
    classifier = AutoModelForSequenceClassification.from_pretrained(classifier_folder).eval()

    @torch.inference_mode()
    def vector_of(text: str) -> list[float]:
        batch = tokenizer(text, truncation=True, return_tensors="pt")
        pooled = encoder(**batch).last_hidden_state.mean(1)
        vector: list[float] = torch.nn.functional.normalize(pooled)[0].tolist()
        return vector

    @torch.inference_mode()
    def label_of(text: str) -> dict[str, Any]:
        batch = tokenizer(text, truncation=True, return_tensors="pt")
        probabilities = classifier(**batch).logits.softmax(-1)[0].tolist()
        names = classifier.config.id2label
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        return {"label": names[best], "probabilities": {names[n]: value for n, value in enumerate(probabilities)}}

    @app.post("/def/embed")
    def embed(asked: Asked) -> dict[str, Any]:
        return {"vector": vector_of(asked.text)}

    @app.post("/async/embed")
    async def embed_in_loop(asked: Asked) -> dict[str, Any]:
        return {"vector": vector_of(asked.text)}

    @app.post("/def/classify")
    def classify(asked: Asked) -> dict[str, Any]:
        return label_of(asked.text)

    @app.post("/async/classify")
    async def classify_in_loop(asked: Asked) -> dict[str, Any]:
        return label_of(asked.text)

    return app


if __name__ == "__main__":
    uvicorn.run(build(*sys.argv[1:3]), port=int(sys.argv[3]), log_level="warning")
