"""Configurations of models: names and spellings, families, unknown fields, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ridgeline.core.errors import InputError
from ridgeline.programs.models.architecture import Experts
from ridgeline.programs.models.hf import KNOWN_TYPES, read_config
from ridgeline.programs.models.load import architecture, entries, entry, known, resolve
from ridgeline.programs.models.parameters import parameters

SMALL = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 100, "rms_norm_eps": 1e-5,
}  # fmt: skip

# -- names -----------------------------------------------------------------------------------------------------------


def test_the_list_is_long_and_every_entry_has_a_source() -> None:
    assert len(known()) >= 65
    assert all(item.source for item in entries().values())


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("Llama 3.1 8B", "llama-3.1-8b"), ("LLAMA3_70B", "llama-3-70b"), ("LLAMA3.1_405B", "llama-3.1-405b"), ("LLaMA 70B", "llama-2-70b"),
        ("LLaMA-7B", "llama-7b"), ("LLaMA-33B", "llama-33b"), ("Llama-3.1-8B-Instruct", "llama-3.1-8b"), ("Llama 4 Scout", "llama-4-scout"),
        ("Llama-3.3-70B", "llama-3.3-70b"), ("meta-llama/Llama-2-70b-chat-hf", "llama-2-70b"), ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("DeepSeekV3", "deepseek-v3"), ("DeepSeek-R1", "deepseek-r1"), ("GPT OSS 120B", "gpt-oss-120b"), ("GPT-J 6B", "gpt-j-6b"),
        ("Falcon 180B", "falcon-180b"), ("Mixtral-8x7B", "mixtral-8x7b"), ("QwQ-32B", "qwq-32b"), ("Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"),
        ("Qwen3-235B-A22B-FP8", "qwen3-235b-a22b"), ("Qwen3_30B_a3B", "qwen3-30b-a3b"), ("TinyLlama-1.1B", "tinyllama-1.1b"),
        ("bert_large", "bert-large"), ("gpt2_large", "gpt2-large"), ("gpt3_27", "gpt3-2.7b"), ("gpt3_xl", "gpt3-xl"), ("gpt3-1.3b", "gpt3-1.3b"), ("opt_13", "opt-1.3b"),
        ("GPT-3 175B one layer", "gpt3-175b-one-layer"),
    ],
)  # fmt: skip
def test_spellings_of_benchmark_tables_resolve(asked: str, name: str) -> None:
    assert resolve(asked) == name
    assert architecture(asked).name == name


def test_no_two_models_share_a_spelling() -> None:
    assert {resolve(name) for name in known()} == set(known())
    assert {alias: resolve(alias) for item in entries().values() for alias in item.aliases} == {
        alias: name for name, item in entries().items() for alias in item.aliases
    }


def test_an_unknown_name_has_near_ones() -> None:
    with pytest.raises(InputError, match=r"unknown model 'lama-3-8b': did you mean .*llama-3-8b"):
        architecture("lama-3-8b")


def test_image_models_are_traced() -> None:
    for name, file in {
        "ViT-B/16": "vit.py:inference",
        "ViT-L": "vit.py:large",
        "ResNet-50": "resnet50.py:inference",
    }.items():
        with pytest.raises(InputError, match=file):
            entry(name)


# -- families --------------------------------------------------------------------------------------------------------


def test_every_entry_is_of_a_known_family_and_has_no_field_that_is_not_understood() -> None:
    for name in known():
        assert entries()[name].config["model_type"] in KNOWN_TYPES
        assert not [note for note in architecture(name).notes if "not understood" in note or "defaults" in note], name


def kinds(name: str) -> list[tuple[Any, ...]]:
    layers = architecture(name).layers
    return [(layer.count, layer.attention.window, type(layer.mlp).__name__) for layer in layers]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mistral-7b", [(32, 4096, "Mlp")]), ("mistral-7b-v0.3", [(32, None, "Mlp")]), ("qwen2.5-7b", [(28, None, "Mlp")]),
        ("gemma-2-9b", [(21, 4096, "Mlp"), (21, None, "Mlp")]), ("gemma-3-27b", [(52, 1024, "Mlp"), (10, None, "Mlp")]),
        ("deepseek-v3", [(3, None, "Mlp"), (58, None, "Experts")]), ("gpt-oss-120b", [(18, 128, "Experts"), (18, None, "Experts")]),
        ("llama-4-scout", [(36, 8192, "Experts"), (12, None, "Experts")]),
        ("llama-4-maverick", [(24, 8192, "Mlp"), (12, 8192, "Experts"), (12, None, "Experts")]),
        ("gpt-neo-1.3b", [(12, None, "Mlp"), (12, 256, "Mlp")]), ("command-r7b", [(24, 4096, "Mlp"), (8, None, "Mlp")]),
        ("phi-4-mini", [(32, None, "Mlp")]), ("mixtral-8x7b", [(32, None, "Experts")]),
    ],
)  # fmt: skip
def test_kinds_of_layers(name: str, expected: list[tuple[Any, ...]]) -> None:
    assert kinds(name) == expected


def test_blocks_in_parallel_and_norms() -> None:
    parallel = {name for name in known() if architecture(name).layers[0].parallel}
    assert {
        "falcon-7b",
        "falcon-40b",
        "gpt-j-6b",
        "gpt-neox-20b",
        "pythia-12b",
        "phi-2",
        "command-r",
        "stablelm-2-12b",
    } <= parallel
    assert not {"llama-3-8b", "gpt2", "phi-3-mini", "stablelm-3b", "bloom-7b1"} & parallel
    norms = {
        name: architecture(name).layers[0].norms
        for name in ("falcon-7b", "falcon-40b", "gemma-2-9b", "glm-4-9b-0414", "gpt2")
    }
    assert norms == {"falcon-7b": 1, "falcon-40b": 2, "gemma-2-9b": 4, "glm-4-9b-0414": 4, "gpt2": 2}


def test_the_language_model_of_a_multimodal_file() -> None:
    """Sizes that the file leaves out are those of the class, as in the config.json of gemma-3-4b."""
    text = {
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024,
    }  # fmt: skip
    read = read_config({"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}}, "gemma")
    assert parameters(read) == parameters(architecture("gemma-3-4b"))
    assert "the language model of `text_config`, without vision" in read.notes
    assert any("from the defaults of gemma3_text: " in note and "num_attention_heads" in note for note in read.notes)


def test_a_family_that_is_not_known_is_read_by_aliases() -> None:
    config = {
        "model_type": "new",
        "d_model": 64,
        "n_layers": 2,
        "n_heads": 4,
        "d_ff": 256,
        "vocab_size": 100,
        "hidden_act": "gelu",
    }
    read = read_config(
        {**config, "layer_norm_eps": 1e-5, "memory_slots": 12, "use_gates": True, "attention_dropout": 0.1}
    )
    assert (read.hidden, read.depth, read.norm) == (64, 2, "layernorm")
    assert parameters(read).total == 2 * 100 * 64 + 2 * (4 * 64 * 64 + 2 * 64 * 256 + 4 * 64) + 2 * 64
    assert (
        "model_type 'new' is not known: read as a decoder with layernorm, an MLP without a gate, no biases"
        in read.notes[0]
    )
    assert read.notes[1] == "fields that are not understood and could change sizes: memory_slots=12, use_gates=True"


def test_experts_of_a_family_that_is_not_known() -> None:
    read = read_config(
        SMALL | {"model_type": "new", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    )
    assert read.layers[0].mlp == Experts(8, 2, 32)


@pytest.mark.parametrize(
    ("table", "stored"),
    [
        ({"quant_method": "fp8"}, "fp8_e4m3"), ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4_g128"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "int4_g128z"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4_g64"), ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
    ],
)  # fmt: skip
def test_quantized_weights_are_named(table: dict[str, Any], stored: str) -> None:
    read = read_config(SMALL | {"quantization_config": table, "torch_dtype": "float16"})
    assert read.weights == stored
    assert any(f"weights in {stored}" in note for note in read.notes)
    assert read_config(SMALL | {"torch_dtype": "float16"}).weights == "fp16"


def test_the_formats_of_a_file_next_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    side = tmp_path / "hf_quant_config.json"
    side.write_text(
        json.dumps(
            {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", "model.layers.0.self_attn*"]}}
        )
    )
    read = architecture(tmp_path)
    assert (read.weights, read.unquantized) == ("nvfp4", ("attention",))
    side.write_text("[1]")
    with pytest.raises(InputError, match="quantization_config: must be a table"):
        architecture(tmp_path)


def test_a_quantization_that_is_not_known_is_said() -> None:
    read = read_config(SMALL | {"quantization_config": {"quant_method": "quip"}})
    assert read.notes == ("quantized by quip: the format of the weights is not known, bf16 is assumed",)


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_file_a_folder_and_a_dict_agree(tmp_path: Path) -> None:
    folder = tmp_path / "small-model"
    folder.mkdir()
    file = folder / "config.json"
    file.write_text(json.dumps(SMALL))
    assert architecture(file) == architecture(str(folder)) == read_config(SMALL, "small-model")


def test_everything_that_is_missing_is_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        read_config({"model_type": "llama", "hidden_size": "wide"})
    message = str(caught.value)
    assert "hidden_size: is 'wide'" in message
    assert all(f"{name}: is missing" in message for name in ("num_hidden_layers", "num_attention_heads", "vocab_size"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_size": 10**400}, "too many digits"), ({"hidden_size": -64}, "hidden_size: is -64"), ({"vocab_size": 1.5}, "whole number"),
        ({"num_hidden_layers": 10**8}, "num_hidden_layers"), ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"num_attention_heads": 5}, "no multiple of 5 heads"), ({"num_key_value_heads": 3}, "does not divide the 4 heads"),
        ({"hidden_size": [64]}, "a list of 1"), ({"tie_word_embeddings": "yes"}, "true or false"), ({"model_type": ["llama"]}, "model_type"),
        ({"quantization_config": "fp8"}, "must be a table"), ({"model_type": "mamba"}, "recurrent"), ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"model_type": "gemma2", "layer_types": ["full_attention"]}, "1 entries for 4 layers"), ({"text_config": {}}, "is missing"),
        ({"model_type": "mixtral", "num_experts_per_tok": 9}, "more than the 8 experts"),
        ({"model_type": "gpt_neo", "max_position_embeddings": 8, "attention_types": [[["global"], 10**9]]}, "attention_types"),
        ({"model_type": "deepseek_v3"}, "kv_lora_rank: is missing"), ({"model_type": "llama4_text", "no_rope_layers": "all"}, "no_rope_layers"),
    ],
)  # fmt: skip
def test_wrong_values_are_one_message(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_config(SMALL | fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"), ("[1, 2]", "must be a table"), ("[" * 100_000, "nested too deep"), ('{"hidden_size": ' + "9" * 5000 + "}", "not JSON"),
        ('{"hidden_size": NaN}', "not JSON"), ('{"a": 1, "a": 2}', "not JSON"), ("\x00\x01", "UTF-8"), ("null", "hidden_size: is missing"),
    ],
)  # fmt: skip
def test_files_that_are_no_configuration(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        architecture(file)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"cannot read 'nowhere/config\.json'"):
        architecture("nowhere/config.json")


@pytest.mark.parametrize(
    "name",
    ["switchxl4", "google/switch-base-8", "t5-large", "google/flan-t5-xl", "facebook/bart-large", "whisper-large-v3"],
)
def test_encoder_decoders_say_what_would_count_them(name: str) -> None:
    from ridgeline.core.errors import UnknownName
    from ridgeline.programs.models.load import architecture

    with pytest.raises(UnknownName, match=r"encoder-decoder.*ridgeline trace"):
        architecture(name)
    with pytest.raises(UnknownName, match="unknown model"):
        architecture("barthez")


def test_an_mlp_width_that_a_file_leaves_out_is_said() -> None:
    """Families take the default of their class; a family without one is four times as wide, and both are noted."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    assert any("intermediate_size" in note for note in read_config({"model_type": "llama", **sizes}).notes)
    assert read_config({"model_type": "llama", **sizes}).layers[0].mlp.inter == 11008
    other = read_config({"model_type": "unheard_of", **sizes})
    assert "intermediate_size is missing: 256 is assumed, four times the hidden size" in other.notes
    assert not any("intermediate_size" in note for note in read_config({"model_type": "gpt2"}).notes)


def test_weights_and_folders_without_a_configuration_are_refused_for_what_they_are(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(InputError, match="file of weights"):
        architecture("model.safetensors")
    with pytest.raises(InputError, match=r"config\.json"):
        architecture("checkpoint")
