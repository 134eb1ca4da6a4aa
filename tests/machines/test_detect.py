"""Detection against recorded and written-out machines: what is claimed, what is left out, and that nothing breaks it."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError, MissingFigure
from ridgeline.core.machine import Machine
from ridgeline.machines import files
from ridgeline.machines import load as machines
from ridgeline.machines.detect import cores as core_table
from ridgeline.machines.detect import cpu as cpu_part
from ridgeline.machines.detect import gpu as gpu_part
from ridgeline.machines.detect import linux
from ridgeline.machines.detect import local as detect
from ridgeline.machines.detect import system as outside
from ridgeline.machines.detect.device import Device, read_table, simd_width
from ridgeline.machines.detect.local import devices, here, machine_of
from strategies import law

FIXTURES = Path(__file__).parents[1] / "fixtures" / "detect"
KiB, MiB, GiB = 2**10, 2**20, 2**30


class Driver:
    """The few functions of the CUDA driver detection calls, answering from a list of GPUs."""

    def __init__(self, gpus: list[dict[str, Any]], init: int = 0) -> None:
        self.gpus, self.init = gpus, init

    def cuInit(self, flags: int) -> int:
        return self.init

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return 0

    def cuDeviceGet(self, handle: Any, index: int) -> int:
        handle._obj.value = index
        return 0

    def cuDeviceGetName(self, text: Any, size: int, handle: ctypes.c_int) -> int:
        text.value = self.gpus[handle.value]["name"].encode()[: size - 1]
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, handle: ctypes.c_int) -> int:
        told = self.gpus[handle.value]["attributes"]
        if str(number) not in told:
            return 1  # CUDA_ERROR_INVALID_VALUE
        value._obj.value = told[str(number)]
        return 0

    def cuDeviceTotalMem_v2(self, size: Any, handle: ctypes.c_int) -> int:
        size._obj.value = self.gpus[handle.value]["memory"]
        return 0


class Recorded(outside.System):
    """A system that answers from a fixture, and counts the files it was asked for."""

    def __init__(
        self,
        name: str = "",
        gpus: list[dict[str, Any]] | None = None,
        files: Mapping[str, str | bytes] | None = None,
        **more: Any,
    ) -> None:
        data = {"platform": "linux", "architecture": "", "count": None, "affinity": None, "files": {}}
        data |= (json.loads((FIXTURES / f"{name}.json").read_text()) if name else {}) | more
        self.platform, self.data, self.reads = data["platform"], data, 0
        self.files: dict[str, str | bytes] = {**expanded(data), **data["files"], **(files or {})}
        self.driver: Any = Driver(gpus) if gpus is not None else None

    def read(self, path: str) -> bytes | None:
        self.reads += 1
        text = self.files.get(path)
        return text.encode() if isinstance(text, str) else text

    def entries(self, path: str) -> list[str]:
        return sorted({name[len(path) + 1 :].split("/")[0] for name in self.files if name.startswith(f"{path}/")})

    def run(self, *command: str) -> str:
        return str(self.data.get("commands", {}).get(command[0], ""))

    def library(self, *names: str) -> Any:
        return self.driver if any("cuda" in name for name in names) else None

    def affinity(self) -> set[int] | None:
        told = self.data["affinity"]
        return linux.cpu_list(told) if told else None

    def count(self) -> int | None:
        return self.data["count"]

    def memory(self) -> int | None:
        return None

    def architecture(self) -> str:
        return str(self.data["architecture"])

    def processor(self) -> str:
        return str(self.data.get("processor", ""))


def expanded(data: Mapping[str, Any]) -> dict[str, str]:
    """The files of a regular machine from its layout: first threads of all cores are numbered first, as Linux does."""
    layout = data.get("layout")
    if not layout:
        return {}
    sockets, cores, threads = layout["sockets"], layout["cores"], layout["threads"]
    total = sockets * cores
    files = {"/sys/devices/system/cpu/online": f"0-{total * threads - 1}\n"}
    blocks = []
    for cpu in range(total * threads):
        number = cpu % total
        root = f"/sys/devices/system/cpu/cpu{cpu}"
        values = {
            "cpu": cpu,
            "core": number % cores,
            "socket": number // cores,
            "siblings": cores * threads,
            "cores": cores,
        }
        blocks.append(data["cpuinfo"].format(**values))
        files[f"{root}/topology/thread_siblings_list"] = (
            ",".join(str(number + total * thread) for thread in range(threads)) + "\n"
        )
        files[f"{root}/topology/physical_package_id"] = f"{number // cores}\n"
        for cache in layout["caches"]:
            start = number // cache["cores"] * cache["cores"]
            shared = ",".join(
                f"{start + total * thread}-{start + total * thread + cache['cores'] - 1}" for thread in range(threads)
            )
            texts = {
                "level": str(cache["level"]),
                "type": cache["type"],
                "size": cache["size"],
                "shared_cpu_list": shared,
            }
            files |= {f"{root}/cache/index{cache['index']}/{name}": f"{text}\n" for name, text in texts.items()}
        files |= {f"{root}/{name}": text for name, text in data.get("cpu_files", {}).items()}
    return files | {"/proc/cpuinfo": "".join(blocks)}


def h200(**changes: Any) -> dict[str, Any]:
    """One H200 as its driver tells it, with attributes (by name) or the name changed."""
    gpu = json.loads((FIXTURES / "h200.json").read_text())["gpus"][0]
    for key, value in changes.items():
        if key in ("name", "memory"):
            gpu[key] = value
        else:
            gpu["attributes"][str(gpu_part.ATTRIBUTES[key])] = value
    return gpu


def capacities(machine: Machine) -> dict[str, tuple[float | None, int, str]]:
    return {level.name: (level.capacity.value(), level.instances, level.scope) for level in machine.levels}


def said(machine: Machine) -> str:
    return " ".join(machine.notes)


# -- CPUs ------------------------------------------------------------------------------------------------------


def test_a_recorded_arm_machine_tells_its_cores_and_no_clock() -> None:
    machine = here(system=Recorded("neoverse-n1-vm"))
    assert (machine.name, machine.kind, machine.architecture) == ("here", "cpu", "neoverse-n1")
    assert "Neoverse N1" in machine.title
    assert dict(machine.units) == {"socket": 1, "core": 2, "thread": 2, "simd_bits": 128}
    assert capacities(machine) == {
        "l1": (64 * KiB, 2, "core"), "l2": (1 * MiB, 2, "core"), "l3": (32 * MiB, 1, "chip"), "memory": (24643328 * 1024, 1, "chip"),
    }  # fmt: skip
    assert not machine.peaks
    assert "clock is not known" in said(machine)
    with pytest.raises(MissingFigure, match="memory"):
        machine.bandwidth()


def test_the_same_machine_with_a_clock_has_derived_peaks_only() -> None:
    clock = {f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq": "2600000\n" for cpu in (0, 1)}
    machine = here(system=Recorded("neoverse-n1-vm", files=clock))
    # two 128-bit FMA units: 2 x 2 lanes x 2 flop in fp64, twice and four times that in fp32 and fp16
    assert {name: figure.value() for name, figure in machine.peaks.items()} == pytest.approx(
        {"vector.fp64": 2 * 8 * 2.6e9, "vector.fp32": 2 * 16 * 2.6e9, "vector.fp16": 2 * 32 * 2.6e9}
    )
    assert {figure.kind() for figure in machine.peaks.values()} == {"derived"}
    assert machine.peaks["vector.fp64"].derivation.startswith("2 cores x 8 flop/cycle x 2.6 GHz")


def test_a_whole_chip_in_the_catalog_is_that_chip() -> None:
    system = Recorded("epyc-9654")
    machine, chip = here("cpu", system), machines.load("epyc-9654")
    assert (machine.name, machine.title) == ("here", chip.title)
    assert "Matched to epyc-9654" in machine.notes[0]
    assert {name: machine.peaks[name].value() for name in machine.peaks} == {
        name: chip.peaks[name].value() for name in chip.peaks
    }
    assert machine.bandwidth().value == chip.bandwidth().value == pytest.approx(460.8e9)
    assert (machine.units["core"], machine.units["thread"], machine.units["socket"]) == (96, 192, 1)
    assert machine.main.capacity.value() == 792_000_000 * 1024  # what is fitted; the catalog cannot know


def test_what_is_found_names_caches_as_they_are_shared() -> None:
    cpu = devices(Recorded("epyc-9654"))[0]
    assert {level.name: (level.capacity.value(), level.instances, level.scope) for level in cpu.levels[:3]} == {
        "l1": (32 * KiB, 96, "core"), "l2": (1 * MiB, 96, "core"), "l3": (32 * MiB, 12, "group"),
    }  # fmt: skip
    assert (cpu.catalog, cpu.simd_bits, cpu.vendor) == ("epyc-9654", 512, "AMD")
    assert cpu.clocks["vector"].value() == 3707812e3
    document = to_document(cpu)
    assert document["selector"] == "here:cpu"
    assert json.loads(json.dumps(document)) == document


def test_two_sockets_are_twice_the_chip_and_say_so() -> None:
    machine, chip = here("cpu", Recorded("xeon-8480plus-2s")), machines.load("xeon-8480plus")
    for name in chip.peaks:
        assert machine.peaks[name].value() == pytest.approx(2 * chip.peaks[name].value())
        assert machine.peaks[name].kind() == "derived"
    assert machine.bandwidth().value == pytest.approx(2 * chip.bandwidth().value)
    assert machine.bandwidth().why.startswith("2 sockets x")
    assert machine.level("l2").instances == 112
    assert "2 sockets" in said(machine)


def test_one_socket_by_affinity_is_one_chip() -> None:
    machine, chip = here("cpu", Recorded("xeon-8480plus-2s", affinity="0-55,112-167")), machines.load("xeon-8480plus")
    assert machine.bandwidth().value == chip.bandwidth().value
    assert "56 of 112 cores" in said(machine)


def test_a_small_virtual_machine_does_not_claim_the_big_chip() -> None:
    machine, chip = here("cpu", Recorded("xeon-cloud-vm")), machines.load("xeon-8480plus")
    assert dict(machine.units) == {"socket": 1, "core": 1, "thread": 2, "simd_bits": 512}
    # one core with two 512-bit FMA units and AMX, at the 2 GHz /proc/cpuinfo shows for want of anything better
    assert machine.peaks["vector.fp64"].value() == pytest.approx(1 * 32 * 2.0e9)
    assert machine.peaks["tensor.bf16"].value() == pytest.approx(1 * 1024 * 2.0e9)
    assert machine.peaks["vector.fp64"].value() < chip.peaks["vector.fp64"].value() / 50
    assert "last resort" in machine.peaks["vector.fp64"].derivation
    assert "xeon-8480plus" in machine.notes[0]
    assert "not used" in machine.notes[0]
    assert "virtual machine" in said(machine)
    assert capacities(machine)["l3"][1:] == (1, "chip")
    with pytest.raises(MissingFigure):
        machine.bandwidth()


def test_the_clock_in_the_model_name_goes_before_the_running_one() -> None:
    system = Recorded("xeon-cloud-vm")
    system.files["/proc/cpuinfo"] = str(system.files["/proc/cpuinfo"]).replace(
        "Platinum 8480+", "Platinum 8488C @ 2.40GHz"
    )
    machine = here("cpu", system)
    assert machine.peaks["vector.fp32"].value() == pytest.approx(1 * 64 * 2.4e9)
    assert "No CPU in the catalog has the name" in machine.notes[0]


def test_instructions_the_hypervisor_hides_have_no_peak() -> None:
    system = Recorded("xeon-cloud-vm")
    system.files["/proc/cpuinfo"] = str(system.files["/proc/cpuinfo"]).replace("amx_bf16", "").replace("amx_int8", "")
    machine = here("cpu", system)
    assert "vector.fp64" in machine.peaks
    assert not [name for name in machine.peaks if name.startswith("tensor")]
    assert "tensor.bf16, tensor.int8" in said(machine)
    system.files["/proc/cpuinfo"] = str(system.files["/proc/cpuinfo"]).replace("avx512", "hidden")
    machine = here("cpu", system)
    assert not machine.peaks
    assert "512-bit vectors" in said(machine)
    whole = Recorded("xeon-8480plus-2s")
    whole.files["/proc/cpuinfo"] = str(whole.files["/proc/cpuinfo"]).replace("amx_", "hidden_")
    assert not [name for name in here("cpu", whole).peaks if name.startswith("tensor")]


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"/sys/fs/cgroup/user.slice/session-1.scope/cpu.max": "max 100000\n", "/sys/fs/cgroup/user.slice/cpu.max": "400000 100000\n"}, 4.0),
        ({"/sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ({"/proc/self/cgroup": "4:cpu,cpuacct:/docker/1\n", "/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "250000\n",
          "/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n"}, 2.5),
        ({"/proc/self/cgroup": "4:cpu:/\n", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"/sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"/sys/fs/cgroup/cpu.max": "9600000 100000\n"}, None),  # as many as there are cores: no limit
    ],
)  # fmt: skip
def test_a_cgroup_quota_limits_what_is_claimed(files: dict[str, str], quota: float | None) -> None:
    system = Recorded("epyc-9654", files=files)
    assert devices(system)[0].quota == quota
    machine = here("cpu", system)
    if quota is None:
        assert "Matched to epyc-9654" in machine.notes[0]
    else:
        assert machine.peaks["vector.fp64"].value() == pytest.approx(quota * 16 * 3707812e3)
        assert f"{quota:g} CPUs" in said(machine)


def test_affinity_counts_cores_not_threads() -> None:
    machine = here("cpu", Recorded("epyc-9654", affinity="0,1,96"))  # 0 and 96 are threads of one core
    assert (machine.units["core"], machine.units["thread"]) == (2, 3)
    assert capacities(machine)["l3"] == (32 * MiB, 1, "chip")
    assert "2 of 96 cores" in said(machine)
    assert "not used" in machine.notes[0]


def test_cores_of_two_kinds_add_up_and_an_unknown_kind_stops_it() -> None:
    system = Recorded("neoverse-n1-vm")
    system.files |= {
        f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq": khz
        for cpu, khz in ((0, "2000000"), (1, "3000000"))
    }
    text = str(system.files["/proc/cpuinfo"])
    first, second = text.split("\n\n")[:2]
    system.files["/proc/cpuinfo"] = (
        f"{first}\n\n{second.replace('0xd0c', '0xd4f').replace('asimddp', 'asimddp sve bf16')}\n"
    )
    machine = here("cpu", system)
    assert machine.peaks["vector.fp64"].value() == pytest.approx(8 * 2e9 + 16 * 3e9)  # Neoverse N1 and V2
    assert "vector.bf16" not in machine.peaks  # only one of them has it
    system.files["/proc/cpuinfo"] = f"{first}\n\n{second.replace('0xd0c', '0xfff')}\n"
    machine = here("cpu", system)
    assert not machine.peaks
    assert "arm:0x41:0xfff" in said(machine)


def test_efficiency_cores_behind_one_model_number_are_not_guessed() -> None:
    system = Recorded("xeon-cloud-vm", files={"/sys/devices/cpu_atom/cpus": "0-1\n"})
    machine = here("cpu", system)
    assert not machine.peaks
    assert "efficiency" in said(machine)


def test_the_firmware_names_an_arm_server() -> None:
    record = bytes([4, 0x1A, 0, 0, 1, 3, 0xFE, 2, *([0] * 8), 3, *([0] * 9)]) + b"CPU0\0AWS\0AWS Graviton3\0\0"
    assert linux.processor_version(record) == "AWS Graviton3"
    machine = here("cpu", Recorded("neoverse-n1-vm", files={"/sys/firmware/dmi/entries/4-0/raw": record}))
    assert machine.notes[0].startswith("By its name this is graviton3")
    assert "has 64 cores, here are 2 cores" in machine.notes[0]


def test_sve_length_comes_from_the_kernel() -> None:
    system = Recorded("neoverse-n1-vm", files={"/proc/sys/abi/sve_default_vector_length": "32\n"})
    assert devices(system)[0].simd_bits == 128  # the CPU has no SVE, whatever the file says
    system.files["/proc/cpuinfo"] = str(system.files["/proc/cpuinfo"]).replace("asimddp", "asimddp sve")
    assert devices(system)[0].simd_bits == 256


def test_a_macbook() -> None:
    system = Recorded("macbook-m2-max")
    cpu, gpu = devices(system)
    assert (cpu.name, cpu.catalog, cpu.simd_bits, dict(cpu.units)) == (
        "Apple M2 Max",
        None,
        128,
        {"socket": 1, "core": 12, "thread": 12},
    )
    levels = {level.name: (level.total, level.instances) for level in cpu.levels}
    assert levels == {
        "l1": (8 * 128 * KiB + 4 * 64 * KiB, 12),
        "l2": (2 * 16 * MiB + 4 * MiB, 3),
        "memory": (32 * GiB, 1),
    }
    assert not machine_of(cpu).peaks  # macOS tells no clock
    assert (gpu.selector, gpu.catalog) == ("gpu0", "apple-m2-max")
    machine = here(system=system)
    assert (machine.kind, machine.bandwidth().value, machine.main.capacity.value()) == ("gpu", 400e9, 32 * GiB)


def test_another_bin_of_an_apple_gpu_scales_what_is_derived() -> None:
    system, chip = Recorded("macbook-m2-max"), machines.load("apple-m2-max")
    system.data["commands"]["/usr/sbin/ioreg"] = system.data["commands"]["/usr/sbin/ioreg"].replace("= 38", "= 30")
    machine = here(system=system)
    assert machine.peaks["vector.fp32"].value() == pytest.approx(chip.peaks["vector.fp32"].value() * 30 / 38)
    with pytest.raises(MissingFigure):
        machine.bandwidth()


def test_an_intel_mac_has_flags_and_a_clock() -> None:
    told = {
        "machdep.cpu.brand_string": "Intel(R) Core(TM) i7-8700B CPU @ 3.20GHz", "machdep.cpu.vendor": "GenuineIntel", "machdep.cpu.family": "6",
        "machdep.cpu.model": "158", "machdep.cpu.features": "FPU SSE2 FMA AVX1.0", "machdep.cpu.leaf7_features": "AVX2", "hw.physicalcpu": "6",
        "hw.logicalcpu": "12", "hw.packages": "1", "hw.memsize": str(16 * GiB), "hw.l1dcachesize": "32768", "hw.l2cachesize": "262144", "hw.l3cachesize": "12582912",
    }  # fmt: skip
    machine = here(
        system=Recorded(
            platform="darwin",
            commands={"/usr/sbin/sysctl": "".join(f"{key}: {value}\n" for key, value in told.items())},
        )
    )
    assert machine.peaks["vector.fp64"].value() == pytest.approx(6 * 16 * 3.2e9)
    assert capacities(machine) == {
        "l1": (32 * KiB, 6, "core"), "l2": (256 * KiB, 6, "core"), "l3": (12 * MiB, 1, "chip"), "memory": (16 * GiB, 1, "chip"),
    }  # fmt: skip


def test_windows_says_what_is_not_known() -> None:
    machine = here(
        system=Recorded(
            platform="win32",
            architecture="AMD64",
            count=16,
            processor="Intel64 Family 6 Model 143 Stepping 8, GenuineIntel",
        )
    )
    assert dict(machine.units) == {"thread": 16}
    assert not machine.peaks
    assert "not known without further tools" in said(machine)


def test_no_proc_and_no_sys_at_all() -> None:
    machine = here(system=Recorded(architecture="riscv64", count=4))
    assert (machine.title, machine.units["core"], [level.name for level in machine.levels]) == (
        "unknown riscv64 CPU",
        4,
        ["memory"],
    )
    assert "does not report which threads share a core" in said(machine)
    with pytest.raises(MissingFigure):
        machine.bandwidth()
    assert here(system=Recorded()).units["core"] == 1


def test_without_sysfs_cpuinfo_still_tells_cores() -> None:
    text = str(Recorded("xeon-8480plus-2s").files["/proc/cpuinfo"])
    machine = here("cpu", Recorded(files={"/proc/cpuinfo": text}))
    assert (machine.units["core"], machine.units["thread"], machine.units["socket"]) == (112, 224, 2)


# -- GPUs ------------------------------------------------------------------------------------------------------


def test_an_h200_is_matched_and_checked() -> None:
    machine, card = here(system=Recorded("epyc-9654", gpus=[h200()])), machines.load("h200-sxm")
    assert (machine.name, machine.title, machine.kind) == ("here", card.title, "gpu")
    assert "Matched to h200-sxm" in machine.notes[0]
    assert machine.peaks == card.peaks
    assert machine.levels == card.levels


def test_the_other_devices_stay_within_reach() -> None:
    system = Recorded("epyc-9654", gpus=[h200(), h200(name="Tesla T4", sm=40, memory=15360 * MiB)])
    assert [device.selector for device in devices(system)] == ["cpu", "gpu0", "gpu1"]
    assert here("gpu", system).title == here("gpu0", system).title == machines.load("h200-sxm").title
    assert here("GPU1", system).title == machines.load("t4").title
    assert here("cpu", system).kind == "cpu"


@pytest.mark.parametrize("which", ["gpu2", "tpu", "gpu-1", "gpux", "0", "cpu0", "gpu" + "9" * 5000, "gpu²"])
def test_a_wrong_selector_names_what_there_is(which: str) -> None:
    with pytest.raises(InputError) as error:
        here(which, Recorded("epyc-9654", gpus=[h200(), h200()]))
    assert "here:cpu (AMD EPYC 9654 96-Core Processor), here:gpu0 (NVIDIA H200), here:gpu1 (NVIDIA H200)" in str(
        error.value
    )


@pytest.mark.parametrize(("code", "why"), [(100, "sees no device"), (803, "answered error 803")])
def test_a_driver_without_a_device_is_no_gpu(code: int, why: str) -> None:
    system = Recorded("epyc-9654", gpus=[h200()])
    system.driver.init = code
    assert here(system=system).kind == "cpu"
    with pytest.raises(InputError, match=why):
        here("gpu", system)


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GB300",
        "NVIDIA B300",
        "NVIDIA H200 NVL",
        "H200",
        "NVIDIA A10",
        "NVIDIA A10G",
        "NVIDIA A100",
        "NVIDIA L40",
        "NVIDIA H2000",
    ],
)
def test_names_that_only_resemble_a_catalog_name_do_not_match(name: str) -> None:
    known = files.by_driver_name(name)[0]
    device = devices(Recorded("neoverse-n1-vm", gpus=[h200(name=name)]))[1]
    assert device.catalog == (known.name if known else None)
    machine = machine_of(device)
    if known is None:
        assert machine.title == name
        assert not [peak for peak in machine.peaks if peak.startswith("tensor")]


def test_matching_is_by_whole_name_for_every_alias() -> None:
    every = list(files.everything())
    owners = {alias.lower(): machine for machine in every for alias in machine.aliases}
    for alias, machine in owners.items():
        assert files.by_driver_name(f"  {alias.upper()} ", machine.kind)[0] == machine
        for near in (f"g{alias}", alias[:-1]):
            other = owners.get(near)
            assert files.by_driver_name(near, machine.kind)[0] == (
                other if other and other.kind == machine.kind else None
            )


def test_an_unknown_gpu_has_what_its_driver_tells() -> None:
    machine = here(system=Recorded("neoverse-n1-vm", gpus=[h200(name="NVIDIA Future 1")]))
    assert machine.peaks["vector.fp32"].value() == pytest.approx(132 * 128 * 2 * 1.98e9)
    assert machine.peaks["vector.fp64"].value() == pytest.approx(132 * 64 * 2 * 1.98e9)
    assert machine.bandwidth().value == pytest.approx(3.201e9 * 6016 * 2 / 8)
    assert {figure.kind() for figure in machine.peaks.values()} == {"derived"}
    assert {name: limit.value() for name, limit in machine.limits.items()} == {
        "shared_per_sm": 228 * KiB, "shared_per_block": 227 * KiB, "registers_per_sm": 256 * KiB,
    }  # fmt: skip
    assert capacities(machine)["l2"][0] == 60 * MiB
    assert "Tensor peaks cannot be derived" in said(machine)


def test_an_undocumented_capability_gets_no_peaks() -> None:
    machine = here(system=Recorded("neoverse-n1-vm", gpus=[h200(name="NVIDIA Future 2", major=99)]))
    assert not machine.peaks
    assert "99.0" in said(machine)
    assert machine.bandwidth().kind == "derived"


def test_fewer_multiprocessors_scale_the_derived_peaks() -> None:
    machine, card = here(system=Recorded("neoverse-n1-vm", gpus=[h200(sm=66)])), machines.load("h200-sxm")
    for name, figure in machine.peaks.items():
        assert (figure.stated, figure.value()) == (None, pytest.approx(card.peaks[name].derived / 2))
    assert machine.units["sm"] == machine.level("l1").instances == 66
    assert "counts 132 SMs, this device has 66" in said(machine)
    assert machine.bandwidth().value == card.bandwidth().value


def test_a_slice_of_the_memory_has_no_bandwidth() -> None:
    machine = here(system=Recorded("neoverse-n1-vm", gpus=[h200(sm=60, memory=70 * GiB)]))
    assert machine.main.capacity.value() == 70 * GiB
    with pytest.raises(MissingFigure):
        machine.bandwidth()
    slice_ = here(
        system=Recorded("neoverse-n1-vm", gpus=[h200(name="NVIDIA H200 MIG 1g.18gb", sm=16, memory=16 * GiB)])
    )
    with pytest.raises(MissingFigure):
        slice_.bandwidth()
    assert slice_.peaks["vector.fp32"].value() == pytest.approx(16 * 128 * 2 * 1.98e9)


def test_the_driver_fills_in_a_bandwidth_the_catalog_lacks() -> None:
    device = devices(Recorded("neoverse-n1-vm", gpus=[h200()]))[1]
    assert device.matched is not None
    machine = machine_of(replace(device, matched=gpu_part.without_bandwidth(device.matched)))
    assert (machine.bandwidth().kind, machine.bandwidth().value) == ("derived", pytest.approx(3.201e9 * 6016 * 2 / 8))


def test_the_catalog_and_the_driver_agree_where_both_know() -> None:
    derived = devices(Recorded("neoverse-n1-vm", gpus=[h200()]))[1].levels[-1].bandwidth.value()
    assert derived == pytest.approx(machines.load("h200-sxm").bandwidth(ceilings="stated").value, rel=0.01)


def test_a_driver_that_tells_nothing_more_than_a_name() -> None:
    machine = here(system=Recorded("neoverse-n1-vm", gpus=[{"name": "", "memory": 0, "attributes": {}}]))
    assert machine.title == "unnamed NVIDIA GPU"
    assert not machine.peaks
    with pytest.raises(MissingFigure):
        machine.bandwidth()


def test_a_broken_machine_file_is_mentioned_and_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('aliases = ["NVIDIA Future 3"]\nname = 3\n')
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    monkeypatch.setattr(
        files, "paths", lambda: {path.stem: path for path in [*tmp_path.glob("*.toml"), tmp_path / "gone.toml"]}
    )
    machine = here(system=Recorded("neoverse-n1-vm", gpus=[h200(name="NVIDIA Future 3")]))
    assert "mine.toml mentions this device and cannot be used" in said(machine)
    assert machine.peaks


def test_a_driver_of_another_make_is_no_gpu() -> None:
    system = Recorded("neoverse-n1-vm")
    system.driver = object()
    assert here(system=system).kind == "cpu"


# -- tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "key", "fits"),
    [
        ("arm:0x41:0xd0c", "arm:0x41:0xD0C", True), ("arm:0x41:0xd0c", "arm:0x41:0xd0", False), ("arm:0x46:0x001", "arm:0x46:0x1", True),
        ("GenuineIntel:6:143", "GenuineIntel:6:143", True), ("GenuineIntel:6:14", "GenuineIntel:6:143", False),
        ("AuthenticAMD:25:16-31", "AuthenticAMD:25:17", True), ("AuthenticAMD:25:16-31", "AuthenticAMD:25:32", False),
        ("AuthenticAMD:25:16-31", "GenuineIntel:25:17", False), ("apple:M1", "apple:M1", True), ("apple:M1", "apple:M10", False), ("", "", True), ("a:b:c", "a:b:c", False),
    ],
)  # fmt: skip
def test_cores_are_matched_by_number(pattern: str, key: str, fits: bool) -> None:
    assert core_table.core_matches(pattern, key) is fits


def test_no_core_is_named_by_two_rows() -> None:
    table = read_table("cores.toml")
    for name, row in table["core"].items():
        assert row["source"] in table["sources"], name
        for pattern in row["match"]:
            key = pattern.partition("-")[0] if pattern.startswith("AuthenticAMD") else pattern
            fitting = [
                core
                for core, other in table["core"].items()
                if any(core_table.core_matches(each, key) for each in other["match"])
            ]
            assert fitting == [name]


def test_a_row_for_certain_model_names_goes_first() -> None:
    table = {
        "core": {
            "wide": {"match": ["GenuineIntel:6:85"], "fp64": 32},
            "narrow": {"match": ["GenuineIntel:6:85"], "names": "Silver|Bronze", "fp64": 16},
        }
    }

    def choose(name: str) -> str:
        return (core_table.core_entry("GenuineIntel:6:85", name, table) or ("none", {}))[0]

    assert choose("Intel(R) Xeon(R) Silver 4214 CPU @ 2.20GHz") == "narrow"
    assert choose("Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz") == "wide"


def test_lanes_by_capability_have_sources_and_agree_with_the_catalog() -> None:
    table = read_table("capability.toml")
    for row in table["capability"].values():
        assert row["source"] in table["sources"]
    by_name = {"p100-pcie-16gb": "6.0", "v100-sxm2-32gb": "7.0", "t4": "7.5", "a100-sxm-80gb": "8.0", "a10": "8.6", "l4": "8.9", "h100-sxm": "9.0", "b200-sxm": "10.0",
               "b300-sxm": "10.3", "rtx-5090": "12.0"}  # fmt: skip
    for name, capability in by_name.items():
        units = machines.load(name).units
        for dtype in ("fp32", "fp64"):
            lanes = table["capability"][capability].get(dtype)
            if lanes and f"{dtype}_lanes_per_sm" in units:
                assert units[f"{dtype}_lanes_per_sm"] == lanes, (name, dtype)


# -- it is quick, light and cannot be broken ---------------------------------------------------------------------


def test_a_big_server_needs_few_reads() -> None:
    system = Recorded("xeon-8480plus-2s")
    here("cpu", system)
    # per core: siblings, package, clock; two caches of its own with two files each. An open and read takes about 10 us.
    assert system.reads < 112 * 8 + 100


def test_detection_loads_nothing_heavy() -> None:
    """Also where the CPU has relatives in the catalog, whose files are read then."""
    code = (
        "import sys; from ridgeline.machines.detect.local import here; here('cpu'); "
        "from ridgeline.machines.files import CATALOG, load_file; load_file(CATALOG / 'epyc-9755.toml'); "
        "print([name for name in ('numpy', 'torch', 'matplotlib', 'pyarrow', 'rich') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(detect.__file__).parents[3])},
    )
    assert done.stdout.strip() == "[]"


def test_the_real_system_answers_without_raising(tmp_path: Path) -> None:
    real = outside.System()
    assert real.read(str(tmp_path / "none")) is None
    assert real.read(str(tmp_path)) is None
    assert real.read("a\0b") is None
    assert real.entries(str(tmp_path / "none")) == []
    assert real.run(str(tmp_path / "none")) == ""
    assert real.run(sys.executable, "-c", "print('said'); raise SystemExit(1)").strip() == "said"
    assert real.library("no-such-library.so.9") is None
    assert isinstance(real.architecture(), str)
    assert (real.memory() or 1) > 0


def test_this_very_machine() -> None:
    machine = here("cpu")
    assert machine.name == "here"
    assert machine.kind == "cpu"
    assert machine.notes
    assert machine.units.get("thread", 0) >= 1


@given(st.text(max_size=400))
@law(150)
def test_parsers_take_any_text(text: str) -> None:
    assert all(0 <= cpu < linux.MAX_CPUS for cpu in linux.cpu_list(text))
    size = linux.cache_size(text)
    assert size is None or size > 0
    assert all(isinstance(block, dict) for block in linux.cpuinfo(text))
    memory = linux.meminfo(text)
    assert memory is None or memory > 0
    simd_width(text.split())
    core_table.core_matches(text, text)
    core_table.core_entry(text)


@given(st.binary(max_size=200))
def test_firmware_records_take_any_bytes(table: bytes) -> None:
    assert isinstance(linux.processor_version(table), str)
    assert isinstance(linux.processor_version(bytes([4]) + table), str)


WORDS = st.one_of(
    st.text(max_size=60),
    st.from_regex(r"[0-9,\-]{0,20}", fullmatch=True),
    st.sampled_from(["0", "-1", "0-3", "64K", "Data", "Unified", "0x41", "999999999999999999", "1 0", "max"]),
)
KEYS = (
    "processor",
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "cpu MHz",
    "flags",
    "Features",
    "CPU implementer",
    "CPU part",
    "physical id",
    "core id",
)


class Broken(Recorded):
    """A machine whose every file, command and driver answers at random."""

    def __init__(self, draw: Callable[[Any], Any], platform: str) -> None:
        super().__init__(platform=platform, gpus=[])
        self.draw = draw
        self.said: dict[str, bytes] = {}
        self.driver = self

    def read(self, path: str) -> bytes | None:
        if path not in self.said:
            if path == "/proc/cpuinfo":
                lines = self.draw(st.lists(st.tuples(st.sampled_from(KEYS), WORDS), max_size=12))
                self.said[path] = "\n".join(f"{key}\t: {value}" for key, value in lines).encode(
                    "utf-8", "surrogatepass"
                )
            else:
                self.said[path] = self.draw(
                    st.one_of(st.binary(max_size=40), WORDS.map(lambda text: text.encode("utf-8", "surrogatepass")))
                )
        return self.said[path]

    def entries(self, path: str) -> list[str]:
        return ["index0", "index1", "index3", "indexx", "uevent"]

    def run(self, *command: str) -> str:
        return (
            "\n".join(f"{key}: {self.draw(WORDS)}" for key in cpu_part.SYSCTL)
            + f'"model" = "Apple {self.draw(WORDS)}"\n"gpu-core-count" = {self.draw(WORDS)}'
        )

    def processor(self) -> str:
        return str(self.draw(WORDS))

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = self.draw(st.integers(-2, 2))
        return 0

    def cuDeviceGet(self, handle: Any, index: int) -> int:
        return 0

    def cuDeviceGetName(self, text: Any, size: int, handle: Any) -> int:
        text.raw = self.draw(st.binary(max_size=size))[:size]
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, handle: Any) -> int:
        value._obj.value = self.draw(st.integers(-(2**31), 2**31 - 1))
        return int(self.draw(st.integers(0, 1)))


@given(st.data(), st.sampled_from(["linux", "darwin", "win32", "freebsd14"]))
@law(60)
def test_no_machine_is_odd_enough_to_break_it(data: st.DataObject, platform: str) -> None:
    for device in devices(Broken(data.draw, platform)):
        machine = machine_of(device)
        json.dumps(to_document([device, machine]))
        assert machine.name == "here"
        assert all((figure.value() or 1) > 0 for figure in machine.peaks.values())


def test_names_the_system_reports_are_clean() -> None:
    assert Device("gpu", "gpu0", "An\x1b[31m odd\ndevice\0").name == "An odd device\ufffd"
