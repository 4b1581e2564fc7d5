"""What an experiment says: settings as lines that can be copied."""

from __future__ import annotations

from simulated import Machine, plan

from busbw.base.terminal import guarded
from busbw.experiment.factors import Factor, Level, variants
from busbw.experiment.text import result_json, result_text, setting_lines


def test_the_best_setting_is_split_into_what_nccl_conf_takes_and_what_the_shell_needs():
    level = Level("x", {"NCCL_ALGO": "Tree", "OMP_NUM_THREADS": "1", "NCCL_GRAPH_FILE": None}, arguments=("-R", "2"))
    lines = setting_lines(variants([Factor("f", (Level("as it is"), level))])[1])
    assert "NCCL_ALGO=Tree" in lines
    assert "export OMP_NUM_THREADS=1" in lines
    assert "unset NCCL_GRAPH_FILE" in lines
    assert "-R 2" in lines


def test_the_text_names_the_best_with_its_interval_and_no_line_is_wider_than_a_terminal(tmp_path):
    chosen = plan("NCCL_ALGO=Ring,Tree", "NCCL_A_RATHER_LONG_NAME_OF_A_VARIABLE=0,a-rather-long-value", rounds=12)
    result = Machine({"NCCL_ALGO=Tree": 0.5}, 1).run(chosen, tmp_path)
    text = result_text(result)
    assert "Best: NCCL_ALGO=Tree" in text
    assert "\nNCCL_ALGO=Tree\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert result_json(result)["best"] == "NCCL_ALGO=Tree"
    assert "\x1b[" in guarded(result_text(result, colour=True))
