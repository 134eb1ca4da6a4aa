"""Models over devices and batches: scaling, replicas that hide the exchange of gradients, drafts, collectives, worked examples."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.errors import InputError
from ridgeline.prediction.models.linked import model_communication
from ridgeline.prediction.models.links import between, stride
from ridgeline.prediction.models.replicas import ReplicaLimit, replica_limit, replica_lines, training_remedies
from ridgeline.prediction.models.scaling import serving_scaling, training_scaling
from ridgeline.prediction.models.speculative import Speculation, predict_draft, verify_time
from ridgeline.prediction.models.step import has_products
from ridgeline.prediction.models.training import Job, TrainingPrediction, predict_training
from ridgeline.programs.models.layout import EXPERT_DATA, Layout
from ridgeline.programs.models.load import architecture
from ridgeline.programs.models.parallel import most_data_parallel
from ridgeline.programs.models.phase import Formats, decode
from ridgeline.programs.models.program import step_ops
from ridgeline.render.charts.models import model_roofline
from ridgeline.render.charts.scaling import batches_chart, energy_chart, scaling_chart

SMALL = "llama-3.2-1b"


def trained(dp: int, batch: int = 64, tokens: int = 512, machine: str = "h100-sxm") -> TrainingPrediction:
    return predict_training(architecture(SMALL), machine, Job(batch, tokens), layout=Layout(dp=dp))


def test_scaling_starts_at_one_device_and_stays_below_the_ideal() -> None:
    made = rl.model(SMALL, "h200-sxm", batch=8)
    scaling = serving_scaling([made], "devices", [1, 2, 3, 4])
    assert [point.devices for point in scaling.points] == [1, 2, 4]
    assert "tp can be" in scaling.refused[0]
    first, *others = scaling.points
    assert (first.tokens_per_s, first.time) == (float(made.tokens_per_s), float(made.serving.tpot))
    assert first.communication == 0
    for point in others:
        assert point.efficiency < 1
        assert point.tokens_per_s == pytest.approx(point.efficiency * point.devices * first.tokens_per_s)
    ideal = next(line for line in scaling_chart(scaling).charts[0].lines if line.role == "target")
    assert ideal.points[-1] == (4.0, pytest.approx(4 * first.tokens_per_s))


def test_training_scales_over_replicas_of_all_degrees() -> None:
    scaling = training_scaling([trained(1)], "dp", [1, 2, 4])
    assert [point.time for point in scaling.points] == [trained(dp).time for dp in (1, 2, 4)]
    tensor = predict_training(architecture(SMALL), "h100-sxm", Job(8, 512), layout=Layout(tp=2))
    assert [point.layout.dp for point in training_scaling([tensor], "devices", [2, 3, 4]).points] == [1, 2]
    with pytest.raises(InputError, match="'sp'"):
        training_scaling([tensor], "sp", [1])


def test_every_degree_has_a_curve() -> None:
    """Its points are the predictions of those layouts; experts are split over the devices there are."""
    dense, experts = (rl.model(name, "h200-sxm", batch=64, dp=dp) for name, dp in ((SMALL, 1), ("olmoe-1b-7b", 4)))
    job = Job(64, 512)
    steps = [
        predict_training(architecture(name), "h200-sxm", job, layout=Layout(dp=4)) for name in (SMALL, "olmoe-1b-7b")
    ]
    for degree, devices in (("pp", [1, 2, 4]), ("cp", [1, 2, 4]), ("ep", [4, 4, 4])):
        served, trained_at = (experts, steps[1]) if degree == "ep" else (dense, steps[0])
        scaling = serving_scaling([served], degree, [1, 2, 4])
        assert [point.devices for point in scaling.points] == devices
        layouts = [Layout(**{"dp": served.layout.dp, degree: value}) for value in (1, 2, 4)]
        expected = [rl.model(served.architecture, "h200-sxm", batch=64, **{name: getattr(layout, name) for name in ("tp", "pp", "dp", "ep", "cp")}) for layout in layouts]  # fmt: skip
        assert [point.time for point in scaling.points] == [float(made.serving.tpot) for made in expected]
        assert scaling.points[0].efficiency == 1
        panel = scaling_chart(scaling)
        assert [point.x for point in panel.charts[0].points] == [1, 2, 4]
        of_training = training_scaling([trained_at], degree, [1, 2])
        assert [point.layout for point in of_training.points] == [
            Layout(**{"dp": 4, degree: value}) for value in (1, 2)
        ]
    with pytest.raises(InputError, match="has no experts to split over ep=2"):
        serving_scaling([dense], "ep", [2])
    with pytest.raises(InputError, match="'dp'"):  # every replica has a load of its own
        serving_scaling([dense], "dp", [2])


def test_stages_decode_groups_of_sequences_in_turn() -> None:
    """Of B sequences a stage has B / pp at a time, so that a token takes pp stages of a group and the caches are read in parallel."""
    single = rl.model(SMALL, "h200-sxm", batch=32, prompt=4096)
    piped = rl.model(SMALL, "h200-sxm", batch=32, prompt=4096, pp=4)
    attention = [next(item for item in made.decode.ops if item.op.name == "attention") for made in (single, piped)]
    assert [float(item.op.work.shape["batch"]) for item in attention] == [32, 8]
    assert float(piped.decode_time) == pytest.approx(4 * float(piped.decode.time) + piped.software.host(32.0))
    assert float(attention[1].bytes) == pytest.approx(float(attention[0].bytes) / 16)
    weights = sum(float(item.op.weights * item.op.count) for item in single.decode.ops) * 2
    assert float(piped.decode_time) > weights / single.machine.bandwidth("main", None).value * 0.9
    assert float(piped.decode_time) < float(single.decode_time)
    assert [float(rl.model(SMALL, "h200-sxm", batch=1, pp=pp).decode.bytes) for pp in (1, 4)] == pytest.approx(
        [float(rl.model(SMALL, "h200-sxm", batch=batch, pp=pp).decode.bytes) for batch, pp in ((1, 1), (4, 4))]
    )


def test_replicas_of_experts_are_as_far_apart_as_experts_are_shared() -> None:
    """64 devices, experts over 8 of a node: their gradients cross the network at 50 GB/s, those of all else mostly do not."""
    made = predict_training(
        architecture("gpt-oss-120b"), "b200-sxm", Job(512, 4096, 4), layout=Layout(dp=64, ep=8, shard=1)
    )
    assert [stride(made.layout, over) for over in ("dp", EXPERT_DATA)] == [1, 8]
    (item,) = [item for item in made.step.ops if item.op.name == "reduce_scatter gradients of experts"]
    sent = float(item.op.work.bytes_at("link") * item.op.count)
    assert float(item.floor) == pytest.approx(sent / 50e9, rel=1e-2)
    assert [item.op.over for item in made.step.ops if "of experts" in item.op.name] == [EXPERT_DATA] * 2


def test_gradients_hide_behind_the_last_backward_pass_or_all_of_them() -> None:
    """Summed over microbatches they are complete in the last one; sharded (ZeRO 2 and 3) they are exchanged in each."""
    for shard in (0, 1, 3):
        made = predict_training(architecture(SMALL), "h100-sxm", Job(64, 512), layout=Layout(dp=8, shard=shard))
        backward = sum(float(item.time) for item in made.step.ops if item.op.step_pass == "backward" and item.op.part != "communication")  # fmt: skip
        assert made.microbatches == 8
        stretched = made.kernels / made._sum(communication=False)  # by the power limit
        assert made.hiding == pytest.approx(made.kernels if shard == 3 else backward / 8 * stretched)
        assert made.exchange_shown == pytest.approx(max(made.exchange - made.hiding, 0.0))


def test_a_given_share_of_attention_is_that_of_its_roofline() -> None:
    plain, given = (
        predict_training(architecture(SMALL), "h100-sxm", Job(1, 8192, attention=share)) for share in (None, 0.35)
    )
    for before, after in zip(plain.step.ops, given.step.ops, strict=True):
        if after.op.name in ("attention", "attention backward"):
            assert float(after.floor / after.time) == pytest.approx(0.35, rel=0.05)
        else:
            assert float(after.time) == float(before.time)


def test_the_limit_of_replicas_is_the_last_that_hides_the_exchange() -> None:
    """S0-89, by trying every divisor of the batch; and no more than the closed form at the ceilings of the fastest link allows."""
    made = trained(2)
    limit = replica_limit(made)
    assert limit is not None
    assert limit.shown_from is not None
    shown = {dp: trained(dp).exchange_shown for dp in (1, 2, 4, 8, 16, 32, 64)}
    assert limit.most == max(dp for dp, seconds in shown.items() if seconds == 0)
    assert limit.shown_from == min(dp for dp, seconds in shown.items() if seconds > 0)
    assert limit.exposed == shown[limit.shown_from]
    machine = rl.machine("h100-sxm")
    fastest = max(link.per_direction.value() or 0.0 for link in machine.links)
    assert limit.most <= most_data_parallel(64 * 512.0, machine.peak("tensor.bf16").value / fastest)
    more = replica_limit(trained(2, tokens=8192))
    assert more is not None
    assert (more.most or 0) > (limit.most or 0)
    beyond = trained(limit.shown_from)
    assert {row.name.partition("=")[0] for row in training_remedies(beyond)} == {"gradients in fp8_e4m3", "tp", "pp"}
    assert [line.partition(" ")[0] for line in replica_lines(beyond)] == ["gradient", "next:"]
    assert len(replica_lines(trained(limit.most))) == 1


def test_replicas_need_links_and_whole_groups_of_experts() -> None:
    formats = Formats("fp16", "fp16", "fp16")
    alone = predict_training(architecture(SMALL), "apple-m2-max", Job(8, 512), formats)
    assert (replica_limit(alone), replica_lines(alone)) == (None, [])
    experts = predict_training(architecture("olmoe-1b-7b"), "h200-sxm", Job(24, 512), layout=Layout(dp=8, ep=8))
    limit = replica_limit(experts)
    assert limit is not None
    assert {limit.most, limit.shown_from} <= {8, 24, None}


def test_the_limit_of_replicas_ends_where_the_links_do() -> None:
    """Eight cards over PCIe and no network: the batch has sequences for 64 replicas, which nobody asked for."""
    described, layout = architecture("llama-3-8b"), Layout(tp=2, dp=2)
    made = predict_training(described, "h100-nvl", Job(64, 8192), layout=layout)
    assert replica_limit(made) == ReplicaLimit(4, None, 0.0, entire=False)
    assert "at every dp that the links of h100-nvl join, to dp=4," in replica_lines(made)[0]
    experts = predict_training(architecture("mixtral-8x7b"), "h100-nvl", Job(64, 512), layout=Layout(dp=4, ep=4))
    limit = replica_limit(experts)
    assert limit is not None
    assert limit.shown_from in (4, 8)


def test_a_draft_helps_while_decoding_waits_for_weights() -> None:
    """S2-17: the verdict depends on batch and layers; verification takes no less than a decode step, but for what timings of a few
    rows differ by."""
    target = rl.model("llama-3-8b", "h200-sxm")
    made = Speculation(target, predict_draft(target, architecture(SMALL)), 4, 0.7)
    swept = made.at_batches((1, 256))
    assert np.all(swept.verify >= 0.98 * np.asarray(target.with_load(batch=np.array([1.0, 256.0])).decode_time))
    few, many = np.asarray(swept.speedup)
    assert few > 1 > many
    assert float(made.speedup) == pytest.approx(few)
    assert "does not help" in Speculation(target.with_load(batch=256.0), made.draft.with_load(batch=256.0), 4, 0.7).answer()[0]  # fmt: skip
    even = Speculation(target, made.draft, 4, float(made.break_even))
    assert float(even.step) / even.tokens == pytest.approx(float(target.decode_time), rel=1e-6)
    with pytest.raises(InputError, match="vocabulary"):
        predict_draft(target, architecture("gpt2"))


def test_verification_of_a_large_layer_reads_weights_and_of_a_small_one_is_overhead() -> None:
    """S2-17 (E-82): 32 tokens over a 70B layer read 470 MB, 140 us at 3.35 TB/s; a small draft's layer is launch-bound."""
    machine = rl.machine("h100-sxm")
    verdicts = {}
    for name in ("llama-3-70b", "smollm-135m"):
        op = next(op for op in step_ops(architecture(name), decode(1, 1024, tokens=32)) if op.name == "down")
        verdicts[name] = op.work.bytes, rl.predict(op.work, machine, ceilings="stated")
    moved, large = verdicts["llama-3-70b"]
    assert moved == pytest.approx(470e6, rel=0.01)
    assert float(large.floor) == pytest.approx(140e-6, rel=0.02)
    assert str(large.bounds[0].bound) == "memory"
    assert str(verdicts["smollm-135m"][1].bounds[0].bound) == "overhead"


def test_a_long_answer_is_decode_and_its_intensity_is_near_one() -> None:
    """S0-97, S0-98, S2-27: 7B in fp16 on an A100, 512 + 256 tokens: 14.0 GB, 98.7 % of the time decodes, decode AI about 1, and
    prefill about the prompt's length where only weights count."""
    made = rl.model("7b", "a100-sxm-80gb", prompt=512, generate=256, dtype="fp16", ceilings="stated")
    assert made.memory.weights == pytest.approx(14.0e9, rel=0.01)
    prefill, every = float(made.prefill.floor), float(made.decode.floor) * 256
    assert every / (every + prefill) == pytest.approx(0.987, abs=1e-3)
    assert every == pytest.approx(1.758, rel=0.03)  # and the cache, which the example leaves out
    assert float(made.decode.flops / made.decode.bytes) == pytest.approx(1.0, rel=0.01)
    weighted = [
        item for item in made.prefill.ops if has_products(item.op) and item.op.weights and item.op.name != "head"
    ]
    products = sum(float(item.flops) for item in weighted)
    assert products / sum(float(item.op.weights * item.op.count) * 2 for item in weighted) == pytest.approx(
        512, rel=0.01
    )
    chart = model_roofline(made)
    places = {group: [point.x for point in chart.points if point.group == group] for group in ("prefill", "decode")}
    assert max(places["decode"]) < 2 < 300 < max(places["prefill"])


@pytest.mark.parametrize(("machine", "sent_share"), [("a100-sxm-80gb", 2 * 3 / 4), ("h200-sxm", 1.0)])
def test_collectives_have_a_place_on_the_communication_roofline(machine: str, sent_share: float) -> None:
    """An all-reduce of m n results sends 2 (t-1)/t m n d bytes around a ring, and m n d where the switch adds them."""
    made = rl.model(SMALL, machine, batch=8, tp=4)
    study = model_communication(made)
    reduced = [item for item in made.decode.ops if item.op.over == "tp" and "all_reduce" in item.op.name]
    sent = sum(float(item.op.count) * sent_share * 8 * 2048 * 2 for item in reduced)
    kernels = sum(float(item.flops) for item in made.decode.ops if item.op.over == "")
    assert study.training["decode: all_reduce"] == pytest.approx(kernels / sent, rel=1e-9)
    assert set(study.carriers.values()) == {"nvlink"}
    assert any("gradients" in name for name in model_communication(trained(4)).training)
    with pytest.raises(InputError, match="sends nothing"):
        model_communication(rl.model(SMALL, "h200-sxm"))


def test_energy_per_token_falls_as_sequences_share_the_weights() -> None:
    batches = np.array([1.0, 8.0, 64.0])
    chart = energy_chart(rl.model(SMALL, "h200-sxm", batch=batches))
    drawn = [point.y for point in chart.points]
    assert drawn == sorted(drawn, reverse=True)
    assert drawn[1] == pytest.approx(float(rl.model(SMALL, "h200-sxm", batch=8).joules_per_token))
    assert any("energy figures" in note for note in chart.notes)


def test_small_multiples_share_their_axes() -> None:
    """S3-23: the same ops under the same roofs; products move right as the batch grows."""
    panel = batches_chart([rl.model(SMALL, "h200-sxm", batch=batch) for batch in (1, 64)])
    few, many = panel.charts
    assert (few.x, few.y) == (many.x, many.y)
    at = [next(point.x for point in chart.points if "gate and up" in point.name) for chart in panel.charts]
    assert at[1] > 30 * at[0]
    assert {line.points for line in few.lines} == {line.points for line in many.lines}


def test_verification_is_a_step_of_more_rows() -> None:
    made = rl.model(SMALL, "h200-sxm", batch=np.array([1.0, 16.0]), kv="fp8")
    times = [np.asarray(verify_time(made, drafted)) for drafted in (1, 4, 8)]
    assert np.all(np.diff(np.log(times), axis=0) >= -0.02)  # timings of a few rows differ by that
    assert made.formats == Formats("bf16", "bf16", "fp8_e4m3")


def test_gradients_over_a_network_are_not_added_on_the_way() -> None:
    """With eight tensor-parallel devices a node has one rank of every replica: rings or trees of 2 (N - 1) / N, more with every replica."""
    ranks = np.array([2.0, 4.0, 8.0, 16.0, 128.0])
    apart = between(rl.machine("h100-sxm"), Layout(tp=8, dp=2), "dp")
    made = rl.predict(rl.ops.all_reduce(bytes=8e9, ranks=ranks), apart)
    assert np.all(np.diff(made.time) > 0)
    assert np.all(made.time >= 2 * (ranks - 1) / ranks * 8e9 / 50e9)


def test_gradients_that_are_exchanged_once_a_step_are_outside_the_bubble_of_a_pipeline() -> None:
    layout = Layout(tp=8, pp=2, dp=2, shard=1)
    short, long = (
        predict_training(architecture("mixtral-8x7b"), "mi300x", Job(batch, 512), layout=layout) for batch in (4, 8)
    )
    assert short.bubble > long.bubble > 0
    assert short.time < long.time
    for made in (short, long):
        assert made.best <= made.time <= made.worst
        assert made.time < (made.kernels + made.exposed) / (1 - made.bubble) + made.update
