"""`config.json` as Hugging Face writes it, to our configuration and back; and the classes of transformers it names.

A key is one of ours, or known to change what is computed: then it must have a value that we support. All others are
told together, and passed over.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from bertkit.errors import ConfigError, nearest, shortened, tell, with_article
from bertkit.families import FAMILIES, class_for, family_of, family_of_class, tables
from bertkit.families.family import Family
from bertkit.families.names import HuggingFace

MOST_TOLD = 20

MAY_BE_NULL = ("pad_token_id", "intermediate_size")
"""Settings that are null where they are left out."""

ONLY: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
"""Keys that would change what is computed, with the values for which they do not."""

BESIDE = re.compile(
    r"_.*|architectures|auto_map|transformers_version|(torch_)?dtype|.*_token_id|tie_word_embeddings|problem_type"
    r"|(id2label|label2id|num_labels)|(finetuning_)?task|classifier_dropout|(use|output|return)_.*|gradient_checkpointing"
)
"""Keys that nearly every folder has, and that say nothing of an encoder."""


def keys_of(family: Family, files: HuggingFace) -> dict[str, str]:
    """Our settings that a family's config.json has, and the keys they are there."""
    ours = (field.name for field in fields(family.config))
    return {name: files.renamed.get(name, name) for name in ours if name not in (*files.fixed, *files.lacks)}


def config_from_huggingface(values: Mapping[str, Any], source: str) -> Any:
    """Our configuration out of theirs. `source` names the file in errors."""
    if "model_type" not in values and not _looks_like_bert(values):
        raise ConfigError(f"{source} has no model_type", 'If it is a BERT, add "model_type": "bert".')
    known = list(tables())
    named = FAMILIES.get(str(values.get("model_type")))
    if named is not None and not named.files:
        return _own_config(named, values, source)
    family, files = next((each for each in known if each[1].model_type == values.get("model_type")), known[0])
    try:
        values = files.read(values)
    except ConfigError as problem:
        raise ConfigError(f"{source}: {problem.problem}", problem.remedy) from None
    for key in files.nested:
        if isinstance(values.get(key), Mapping) and "family" not in values[key]:
            inside = config_from_huggingface(values[key], f"{source}, {key}")
            values = {**values, key: inside.to_json()}
    keys = keys_of(family, files)
    fixed = {name: (value,) for name, value in files.fixed.items()}
    only = {**fixed, **ONLY, **files.only, "model_type": tuple(each.model_type for _, each in known)}
    strange = []
    for key, value in sorted(values.items(), key=lambda item: item[0] != "model_type"):  # which says most
        if key in keys.values() or key in files.copies or key in files.inert or BESIDE.fullmatch(key):
            continue
        if key in only and value not in only[key]:
            supported = " or ".join(repr(good) for good in only[key] if good is not None) or "None"
            remedy = "bertkit computes no model with another."
            if key == "model_type":
                remedy = _inside(values, only[key]) or "This model is of another family."
            raise ConfigError(f"{source}: {key} is {shortened(value)}, and only {supported} is supported", remedy)
        if key in only:
            continue
        if owners := [each.title for each, its in known if key in keys_of(each, its).values()]:
            raise ConfigError(
                f"{source}: the key {shortened(key)} is not {family.title}'s: it is one of "
                f"{', '.join(dict.fromkeys(owners))}",
                "Bring the config.json that belongs to the weights, with their model_type; if it does not change the "
                "model, take it out of the file.",
            )
        strange.append(f"{shortened(key)} {nearest(key, keys.values())}".strip())
    if strange:
        some = ", ".join(strange[:MOST_TOLD]) + (", …" if len(strange) > MOST_TOLD else "")
        tell(f"{source}: keys that bertkit does not know are passed over: {some}")
    _require_one_family(values, family, files, source)
    said = {
        ours: values[key]
        for ours, key in keys.items()
        if key in values and (values[key] is not None or ours not in MAY_BE_NULL)
    }
    for name, names in files.called.items():
        if name in said:
            said[name] = {theirs: ours for ours, theirs in names.items()}.get(said[name], said[name])
    hidden = said.get("hidden_size", family.config.hidden_size)
    if files.four_times_as_wide and isinstance(hidden, int):
        said.setdefault("intermediate_size", 4 * hidden)
    try:
        return family.config.from_json({**files.sizes, **said, **files.fixed})
    except ConfigError as problem:
        name, *rest = problem.problem.split(" ", 1)  # as the file calls it
        raise ConfigError(f"{source}: {' '.join([keys.get(name, name), *rest])}", problem.remedy) from None


def _own_config(family: Family, values: Mapping[str, Any], source: str) -> Any:
    ours = {field.name for field in fields(family.config)}
    own = {key: value for key, value in values.items() if key in ours or not BESIDE.fullmatch(key)}
    own.pop("model_type")
    try:
        return family.config.from_json(own)
    except ConfigError as problem:
        raise ConfigError(f"{source}: {problem.problem}", problem.remedy) from None


def config_to_huggingface(config: Any, architecture: str, *, tied: bool = True) -> dict[str, Any]:
    family = family_of(config)
    files, values = family.files_for(config), config.to_json()
    if files.whole and not files.nested:
        return {**values, "model_type": values.pop("family"), "architectures": [architecture]}
    for name, names in files.called.items():
        if values[name] in names.values():
            raise ConfigError(
                f"{name} is {values[name]}", f"{family.title} of transformers means another by that name."
            )
        values[name] = names.get(values[name], values[name])
    for name, suffix in files.nested.items():
        values[name] = config_to_huggingface(half := getattr(config, name), class_for(half, suffix), tied=tied)
    said = {key: values[ours] for ours, key in keys_of(family, files).items()}
    said |= {key: values[ours] for key, ours in files.copies.items()}
    for task, ours in (("classify", "classifier_dropout"), ("qa", "qa_dropout")):
        if getattr(family.config, ours, None) is not None:  # where None would mean that number
            said[files.renamed.get(ours, ours)] = config.head_dropout(task)
    if "embedding_size" in said:
        said["embedding_size"] = config.embedding_width
    if "num_hidden_groups" in said:
        said["num_hidden_groups"] = config.blocks
    return files.write(
        {
            "architectures": [architecture],
            "model_type": files.model_type,
            **said,
            "position_embedding_type": "absolute",
            "tie_word_embeddings": tied,
            "dtype": "float32",
        }
    )


def _looks_like_bert(values: Mapping[str, Any]) -> bool:
    """The first BERT checkpoints had a bert_config.json's contents and no model_type."""
    return {"vocab_size", "hidden_size", "num_hidden_layers", "type_vocab_size"} <= values.keys()


def _require_one_family(values: Mapping[str, Any], family: Family, files: HuggingFace, source: str) -> None:
    """Refuse a config.json that calls the model two things: names and shapes of the weights may be the same in both."""
    named = values.get("architectures")
    first = named[0] if isinstance(named, list) and named else None
    other = family_of_class(first) if isinstance(first, str) else None
    if other is not None and other[0] is not family:
        said = f"model_type is {files.model_type!r}" if "model_type" in values else "there is no model_type"
        raise ConfigError(
            f"{source}: architectures names {first}, and {said}",
            f'{first} goes with "model_type": "{other[1].model_type}", {family.title} with classes such as '
            f"{files.class_prefix}Model: bring the config.json that belongs to the weights.",
        )


def _inside(values: Mapping[str, Any], known: Collection[str]) -> str:
    """How to take a model out of one that has others in it."""
    its = [key for key, part in values.items() if isinstance(part, Mapping) and part.get("model_type") in known]
    if not its:
        return ""
    name = its[0].removesuffix("_config")
    return (
        f"It has {with_article(values[its[0]]['model_type'])} inside: with transformers, "
        f"AutoModel.from_pretrained(FOLDER).{name}.save_pretrained(OUT) takes it out."
    )
