"""`config.json` as Hugging Face writes it, to our configuration and back; and the classes of transformers it names.

Strict both ways: a key is one of ours, or known to change nothing in the encoder, or has only one value that we
support. Anything else is refused, because a setting that is not understood is a model that computes something else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from bertkit.errors import ConfigError, nearest, shortened
from bertkit.families import FAMILIES, family_of, family_of_class, tables
from bertkit.families.family import Family
from bertkit.families.names import HuggingFace

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

INERT = frozenset(
    # what the model was and is for
    "architectures auto_map tokenizer_class name language task finetuning_task id2label label2id num_labels "
    "problem_type classifier_dropout task_specific_params license tags dtype torch_dtype transformers_version "
    "tie_word_embeddings bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id unk_token_id "
    "decoder_start_token_id prefix "
    # how it is run, never what it gives
    "use_cache output_past output_attentions output_hidden_states return_dict use_return_dict torchscript "
    "use_bfloat16 gradient_checkpointing chunk_size_feed_forward attn_implementation experts_implementation "
    "tf_legacy_loss model_max_length sbert_ce_default_activation_function sentence_transformers "
    # of BERT's TensorFlow configuration: read by nothing
    "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type "
    # settings for generating text, which older versions wrote into every config
    "max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k "
    "top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
    "bad_words_ids num_return_sequences output_scores return_dict_in_generate forced_bos_token_id "
    "forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens "
    "begin_suppress_tokens sequence_bias".split()
)
"""Keys that change nothing in what the encoder computes. Names with a leading underscore are never settings."""


def keys_of(family: Family, files: HuggingFace) -> dict[str, str]:
    """Our settings that a family's config.json has, and the keys they are there."""
    ours = (field.name for field in fields(family.config))
    return {name: files.renamed.get(name, name) for name in ours if name not in (*files.fixed, *files.lacks)}


def config_from_huggingface(values: Mapping[str, Any], source: str, ignore: Collection[str] = ()) -> Any:
    """Our configuration out of theirs. `source` names the file in errors; `ignore` lists keys that the user says do
    not matter."""
    if "model_type" not in values and not _looks_like_bert(values):
        raise ConfigError(f"{source} has no model_type", 'If it is a BERT, add "model_type": "bert".')
    known = list(tables())
    named = FAMILIES.get(str(values.get("model_type")))
    if named is not None and not named.files:
        return _own_config(named, values, source, ignore)
    family, files = next((each for each in known if each[1].model_type == values.get("model_type")), known[0])
    try:
        values = files.read(values)
    except ConfigError as problem:
        raise ConfigError(f"{source}: {problem.problem}", problem.remedy) from None
    keys = keys_of(family, files)
    only = {**ONLY, **files.only, "model_type": tuple(each.model_type for _, each in known)}
    for key, value in sorted(values.items(), key=lambda item: item[0] != "model_type"):  # which says most
        if key in ignore or key in INERT or key in files.inert or key in keys.values() or key.startswith("_"):
            continue
        if key in files.copies:
            continue
        if key not in only:
            if owners := [each.title for each, its in known if key in keys_of(each, its).values()]:
                raise ConfigError(
                    f"{source}: unknown key {shortened(key)} for {family.title}: it is one of "
                    f"{', '.join(dict.fromkeys(owners))}",
                    "Bring the config.json that belongs to the weights, with their model_type. "
                    + _if_it_does_nothing(key),
                )
            guess = nearest(key, [*keys.values(), *only])
            raise ConfigError(
                f"{source}: unknown key {shortened(key)}",
                f"{guess} {_if_it_does_nothing(key)}",
            )
        if value not in only[key]:
            supported = " or ".join(repr(good) for good in only[key] if good is not None) or "None"
            raise ConfigError(f"{source}: {key} is {shortened(value)}, and only {supported} is supported", _advice(key))
    _require_one_family(values, family, files, source)
    said = {
        ours: values[key]
        for ours, key in keys.items()
        if key in values and (values[key] is not None or ours not in MAY_BE_NULL)
    }
    for name, names in files.called.items():
        ours_by_theirs = {theirs: ours for ours, theirs in names.items()}
        if name in said:
            said[name] = ours_by_theirs.get(said[name], said[name])
    hidden = said.get("hidden_size", family.config.hidden_size)
    if files.four_times_as_wide and isinstance(hidden, int):
        said.setdefault("intermediate_size", 4 * hidden)
    try:
        return family.config.from_json({**files.sizes, **said, **files.fixed})
    except ConfigError as problem:
        name, *rest = problem.problem.split(" ", 1)  # as the file calls it
        raise ConfigError(f"{source}: {' '.join([keys.get(name, name), *rest])}", problem.remedy) from None


def _own_config(family: Family, values: Mapping[str, Any], source: str, ignore: Collection[str]) -> Any:
    own = {key: value for key, value in values.items() if key not in ("model_type", "architectures", *ignore)}
    own = {key: value for key, value in own.items() if key not in INERT}
    try:
        return family.config.from_json(own)
    except ConfigError as problem:
        raise ConfigError(f"{source}: {problem.problem}", problem.remedy) from None


def config_to_huggingface(config: Any, architecture: str, *, tied: bool = True) -> dict[str, Any]:
    family = family_of(config)
    files, values = family.files_for(config), config.to_json()
    if files.whole:
        return {**values, "model_type": values.pop("family"), "architectures": [architecture]}
    for name, names in files.called.items():
        if values[name] in names.values():
            raise ConfigError(
                f"{name} is {values[name]}", f"{family.title} of transformers means another by that name."
            )
        values[name] = names.get(values[name], values[name])
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


def _advice(key: str) -> str:
    return "This model is of another family." if key == "model_type" else "bertkit computes no model with another."


def _if_it_does_nothing(key: str) -> str:
    """What a user does with a key that is not known; one that cannot be typed is nobody's setting."""
    if re.fullmatch(r"[\w.-]{1,60}", key):
        return f"If it does not change the model, add `ignore_config_key={key}`."
    return "If it does not change the model, take it out of the file."
