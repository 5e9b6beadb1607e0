"""What is said about the machine, from made-up files of /proc."""

from sidebyside.machine import busy_seconds, cpu_facts, describe_machine, file_name


def test_cpu_facts():
    text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 avx512f\n\nprocessor\t: 1\n"
    assert cpu_facts(text) == ("Some CPU @ 2 GHz", ["avx2", "avx512f"])
    assert cpu_facts("Features\t: fp asimddp i8mm\n")[1] == ["asimddp", "i8mm"]


def test_busy_seconds_leave_out_idle_and_guests():
    # user nice system idle iowait irq softirq steal guest guest_nice
    assert busy_seconds("cpu  100 20 30 5000 400 5 6 39 90 10\ncpu0 1 1 1\n", 100) == 2.0


def test_file_names_are_plain():
    assert file_name("2026-01-02T03:04:05Z", {"cpu": "AMD EPYC(tm) 7/8", "cpus": 2}) == (
        "2026-01-02T030405Z-amd-epyc-tm-7-8-2-cpus")


def test_this_machine_has_a_description():
    machine = describe_machine()
    assert machine["cpus"] >= 1 and machine["memory_bytes"] > 2**28 and machine["cpu"]
