"""What requests look like. What a model makes of an input is said by its task; here it is only made sure that there is
text where text belongs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, create_model, model_validator

from bertkit.infer.sampling import Sampling
from bertkit.tasks import all_tasks_but

Text = Annotated[StrictStr, Field(pattern=r"^[^\x00]*$")]
Texts = Annotated[list[Text], Field(fail_fast=True)]
"""The first that is wrong is told: to find all in a long list takes seconds."""
Count = Annotated[StrictInt, Field(ge=0, le=10_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Fields(_Strict):
    def given(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class _Predict(_Strict):
    def items(self) -> list[Any]:
        inputs: Any = self.inputs  # type: ignore[attr-defined]
        given = inputs if isinstance(inputs, list) else [inputs]
        return [each.given() if isinstance(each, _Fields) else each for each in given]


def predict_request() -> type[_Predict]:
    """What tasks can be asked: an input with names has those of the parts of all tasks that there are. A list is two
    texts, the words to tag, or a beginning and its endings."""
    owners: dict[str, list[str]] = {}
    fields: dict[str, Any] = {}
    for kind in all_tasks_but():
        for part in kind.parts:
            if part.learned:
                continue
            owners.setdefault(part.name, []).append(kind.name)
            told = ", ".join(owners[part.name]) + (f": {part.about}" if part.about else "")
            shape: Any = Texts if part.several else Text
            if part.name in fields and fields[part.name][0] != shape | None:
                shape = Text | Texts
            fields[part.name] = (shape | None, Field(None, description=told))
    named = create_model("Fields", __base__=_Fields, __doc__="An input with names: those of its task.", **fields)
    item: Any = Text | Annotated[list[Text | Texts], Field(fail_fast=True)] | named
    inputs = Field(
        description="One input, a text or an object; or a list of them, in which a list stands for one input too: "
        "two texts, words to tag, or a beginning and a list of endings.",
        examples=["good value", ["good value", "fell apart"], {"question": "Who came?", "context": "Ann came."}],
    )
    shapes: Any = Text | named | Annotated[list[item], Field(fail_fast=True)]
    return create_model("PredictRequest", __base__=_Predict, inputs=(shapes, inputs))


class _Texts(_Strict):
    inputs: Text | Texts = Field(description="A text, or a list of them.")

    def items(self) -> list[str]:
        return [self.inputs] if isinstance(self.inputs, str) else self.inputs


class FillMaskRequest(_Texts):
    k: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(5, description="How many guesses for each mask.")


class GenerateRequest(_Texts):
    """The settings are those of `bertkit generate`; what does not go together is refused there too."""

    max_tokens: Annotated[StrictInt, Field(ge=1, le=10_000)] = 64
    temperature: Annotated[float, Field(ge=0, le=100, strict=True)] = Field(0.0, description="0: the likeliest token.")
    top_k: Annotated[StrictInt, Field(ge=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, strict=True)] | None = None
    beams: Annotated[StrictInt, Field(ge=1, le=32)] = 1
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100, strict=True)] = 1.0
    no_repeat: Annotated[StrictInt, Field(ge=0, le=1000)] = Field(0, description="No so many tokens in a row twice.")
    stop: Annotated[list[Annotated[Text, Field(min_length=1)]], Field(max_length=16, fail_fast=True)] = []
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = 0
    samples: Annotated[StrictInt, Field(ge=1, le=64)] = Field(1, description="Texts for each prompt.")
    stream: StrictBool = Field(False, description="Of one prompt: a line of JSON for each piece, as it comes.")

    @model_validator(mode="after")
    def _one_text_streams(self) -> Self:
        if self.stream and (not isinstance(self.inputs, str) or self.samples > 1):
            raise ValueError("only one text of one prompt is streamed")
        return self

    def sampling(self) -> Sampling:
        settings = self.model_dump(exclude={"inputs", "stream", "max_tokens", "stop"})
        return Sampling(**settings, max_new_tokens=self.max_tokens, stop=tuple(self.stop))


class EmbedRequest(_Texts):
    level: Literal["text", "word"] = "text"
    pooling: Literal["cls", "mean", "max"] | None = Field(None, description="What the folder asks for, unless given.")
    layers: Annotated[StrictStr, Field(max_length=200)] = "last"
    normalize: StrictBool | None = Field(None, description="Vectors of length 1; what the folder asks for.")
    long: Literal["windows", "truncate", "error"] = "windows"
    allow_empty: StrictBool = False
    split: Literal["tokenizer", "whitespace"] = Field("tokenizer", description="With level word, what a word is.")


class WordsRequest(_Strict):
    inputs: Texts = Field(description="Words: whose nearest are looked for, three of an analogy, or those of a map.")
    ask: Literal["nearest", "analogy", "map"] = "nearest"
    k: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(10, description="How many words to say.")


class AttentionRequest(_Strict):
    text: Text
    pair: Text | None = None
    layer: Count | None = Field(None, description="Counted from 0; all of them unless given.")
    head: Count | None = Field(None, description="Counted from 0; all of them unless given.")
    truncate: StrictBool = False


class ExplainRequest(_Strict):
    text: Text
    pair: Text | None = None
    label: Text | None = Field(None, description="The likeliest one, unless given.")


class OpenAIEmbeddings(BaseModel):
    """As OpenAI's clients send it. Fields that we do not know are ignored, as servers of that kind do."""

    input: Text | Texts
    model: Text | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: StrictInt | None = None
    user: StrictStr | None = None

    def items(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


class TeiEmbed(BaseModel):
    """As clients of text-embeddings-inference send it."""

    inputs: Text | Texts
    normalize: StrictBool = True
    truncate: StrictBool = False

    def items(self) -> list[str]:
        return [self.inputs] if isinstance(self.inputs, str) else self.inputs


Pair = Annotated[list[Text], Field(min_length=1, max_length=2, fail_fast=True)]


class TeiPredict(BaseModel):
    inputs: Text | Pair | Annotated[list[Pair], Field(min_length=1, fail_fast=True)] = Field(
        description="A text, two texts that belong together, or a list of such lists."
    )
    truncate: StrictBool = False
    raw_scores: StrictBool = False


class TeiLabel(BaseModel):
    score: float
    label: str


class OpenAIVector(BaseModel):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class OpenAIUsage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class OpenAIList(BaseModel):
    object: Literal["list"]
    data: list[OpenAIVector]
    model: str
    usage: OpenAIUsage


class Problem(BaseModel):
    class About(BaseModel):
        type: str
        message: str

    error: About


class Answers(BaseModel):
    model: str
    answers: list[dict[str, Any]] = Field(description="One for each input: what the command writes of it.")


class PartFacts(BaseModel):
    name: str
    needed: bool
    several: bool
    instead: str = Field(description="Of which other part it is another way to give it.")


class ModelFacts(BaseModel):
    id: str
    object: Literal["model"]
    owned_by: Literal["bertkit"]
    created: int
    task: str
    state: Literal["ready", "loading", "not loaded"]
    default: bool
    operations: list[str]
    parts: list[PartFacts] | None = Field(description="Of an input, where it is fine-tuned for a task.")
    sample: dict[str, str] = Field(description="Something to ask it, from its card.")
    labels: list[str] | None
    max_length: int | None
    mask: str | None
    layers: int | None
    heads: int | None
    table: bool = Field(description="Whether it is a table of words, with one vector for each.")
    queue: int
    reload_refused: bool = Field(description="Its folder has changed and cannot be loaded; the log says why.")


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[ModelFacts]
