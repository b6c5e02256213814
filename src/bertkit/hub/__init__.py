"""Exchange with the Hugging Face world: names, folders, the hub. One reversible table per family."""

from bertkit.rooms import public

__all__, __getattr__ = public(
    __name__,
    {
        "fetch": "find_folder",
        "fine_tuned": "load_fine_tuned save_fine_tuned",
        "folder": "ModelFolder require_place",
        "huggingface": "config_from_huggingface config_to_huggingface",
        "safetensors_files": "read_headers",
        "sentence_transformers": "SentenceSettings",
        "weights": "architecture_of load_model save_model",
    },
)
