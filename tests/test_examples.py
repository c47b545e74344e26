"""The recipes in examples/: run against stand-ins for a cluster's commands, and read with our own parser."""

import os
import re
import shlex
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

import flax_transformer
from flax_transformer.cli.options import parse
from flax_transformer.cli.train import TrainOptions, train_options
from flax_transformer.common.errors import EXIT_CODE
from flax_transformer.config import ParallelConfig
from flax_transformer.engine.devices.process_group import _resolve

EXAMPLES = ROOT / 'examples'
SHELL = sorted(file for file in EXAMPLES.iterdir() if file.suffix in ('.sbatch', '.sh'))
# Writes down its arguments and ends as it should. cat writes them at once: others may be writing at the same time.
STAND_IN = """#!/bin/bash
call=$(printf '%s\\n' "$(basename "$0")" "$@" END)
cat <<< "$call" >> "$CALLS"
exit "$CODE"
"""


def run(script: str, *arguments: str, stand_ins: list[str], folder: Path, code: int = 0) -> tuple[int, list[list[str]]]:
    """The exit code of a recipe, and the calls of commands that a stand-in took."""
    for name in stand_ins:
        (folder / name).write_text(STAND_IN)
        (folder / name).chmod(stat.S_IRWXU)
    calls = folder / 'calls'
    environment = {'PATH': f'{folder}:{os.environ["PATH"]}', 'CALLS': str(calls), 'CODE': str(code)}
    slurm = {'SLURM_JOB_ID': '17', 'SLURM_CPUS_PER_TASK': '8'}
    done = subprocess.run(['bash', str(EXAMPLES / script), *arguments], env=environment | slurm, capture_output=True)
    assert done.stderr == b''
    taken = [call.splitlines() for call in calls.read_text().split('END\n') if call]
    return done.returncode, taken


def read(command: str) -> TrainOptions:
    """The options of a `flax-transformer train ...` at the end of a shell command."""
    argv = shlex.split(re.sub(r'.*flax-transformer train', '', command.replace('\\\n', ' '), flags=re.S))
    default = lambda name: train_options(name, argv)
    options = parse('train', TrainOptions, argv, first='CONFIG', default=default)
    assert options.workdir == Path('/shared/runs/big')
    return options


@pytest.mark.parametrize('file', SHELL, ids=lambda file: file.name)
def test_the_shell_parses(file: Path) -> None:
    subprocess.run(['bash', '-n', str(file)], check=True)


@pytest.mark.parametrize('file', SHELL, ids=lambda file: file.name)
def test_shellcheck_finds_nothing(file: Path) -> None:
    try:
        subprocess.run(['shellcheck', str(file)], check=True)
    except FileNotFoundError:
        pytest.skip('shellcheck is not installed')


def test_each_recipe_is_linked_in_the_docs() -> None:
    pages = ('launch', 'serve', 'tasks', 'export')
    text = ''.join((ROOT / 'docs' / 'how-to' / f'{page}.md').read_text(encoding='utf-8') for page in pages)
    for file in EXAMPLES.iterdir():
        if file.name not in ('__pycache__', 'ray_translate.py'):
            assert f'(../../examples/{file.name})' in text, file


def test_the_workflow_for_pages_publishes_what_the_page_on_exports_makes() -> None:
    workflow = yaml.safe_load((EXAMPLES / 'pages.yaml').read_text())
    steps = workflow['jobs']['site']['steps']
    install, *commands = [step['run'] for step in steps if 'run' in step]
    (extra,) = re.findall(r"pip install '\.\[(\w+)\]'", install)
    assert extra in tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['optional-dependencies']
    assert '\n'.join(commands) in (ROOT / 'docs' / 'how-to' / 'export.md').read_text()
    published = [step['with']['path'] for step in steps if 'upload-pages-artifact' in step.get('uses', '')]
    assert published == [shlex.split(commands[-1])[3]]


@pytest.mark.parametrize(('code', 'is_requeued'), [(0, False), (2, False), (EXIT_CODE, True)])
def test_a_slurm_job_that_stopped_is_queued_again(code: int, is_requeued: bool, tmp_path: Path) -> None:
    ended, calls = run('slurm.sbatch', stand_ins=['srun', 'scontrol'], folder=tmp_path, code=code)
    assert ended == code
    assert calls[1:] == ([['scontrol', 'requeue', '17']] if is_requeued else [])
    assert '--kill-on-bad-exit=0' in calls[0]  # else srun returns 143 or 137, not 75
    options = read(shlex.join(calls[0]))
    assert options.config.parallel == ParallelConfig('mesh', num_processes=0, fsdp=8)


def test_slurm_tells_jax_who_is_who(monkeypatch: pytest.MonkeyPatch) -> None:
    """What srun sets for task 9 of the recipe, which is the second on the second host."""
    text = (EXAMPLES / 'slurm.sbatch').read_text()
    asked = dict(re.findall(r'^#SBATCH --([a-z-]+)=(\S+)$', text, flags=re.M))
    tasks = int(asked['nodes']) * int(asked['ntasks-per-node'])
    assert asked['gpus-per-node'] == asked['ntasks-per-node']  # JAX gives each process one device
    assert asked['signal'] == 'TERM@120'
    assert tasks % 8 == 0  # fsdp
    slurm = {
        'SLURM_JOB_ID': '17',
        'SLURM_STEP_NODELIST': 'node[4-7]',
        'SLURM_NTASKS': str(tasks),
        'SLURM_PROCID': '9',
        'SLURM_LOCALID': '1',
        'SLURM_STEP_NUM_NODES': asked['nodes'],
    }
    for name, value in slurm.items():
        monkeypatch.setenv(name, value)
    assert _resolve(ParallelConfig('mesh', num_processes=0)) == ('node4:61457', 32, 9, [1])


def test_ssh_gives_each_host_its_number(tmp_path: Path) -> None:
    ended, calls = run('ssh.sh', 'a', 'b', 'c', stand_ins=['ssh'], folder=tmp_path)
    assert ended == 0
    assert {call[1] for call in calls} == {'a', 'b', 'c'}
    for call in calls:
        parallel = read('\n'.join(call[2:])).config.parallel
        number = 'abc'.index(call[1])
        assert parallel == ParallelConfig('mesh', num_processes=3, coordinator='a:9911', process_id=number)


def test_the_tpu_recipe_starts_all_hosts(tmp_path: Path) -> None:
    ended, (call,) = run('tpu_pod.sh', 'my-slice', 'my-zone', stand_ins=['gcloud'], folder=tmp_path)
    assert ended == 0
    assert call[:8] == [*['gcloud', 'compute', 'tpus', 'tpu-vm', 'ssh', 'my-slice', '--zone=my-zone', '--worker=all']]
    command = '\n'.join(call[8:]).removeprefix('--command=')
    assert read(command).config.parallel == ParallelConfig('mesh', num_processes=0)

    run('tpu_pod.sh', 'my-slice', 'my-zone', 'stop', stand_ins=['gcloud'], folder=tmp_path)
    assert '--command=pkill -TERM -f' in (tmp_path / 'calls').read_text()


@pytest.mark.parametrize('file', ['jobset.yaml', 'jobset_tpu.yaml'])
def test_a_jobset_names_its_pods_volumes_and_codes_as_it_uses_them(file: str) -> None:
    jobset = yaml.safe_load((EXAMPLES / file).read_text())
    assert (jobset['apiVersion'], jobset['kind']) == ('jobset.x-k8s.io/v1alpha2', 'JobSet')
    assert 'kueue.x-k8s.io/queue-name' in jobset['metadata']['labels']
    (job,) = jobset['spec']['replicatedJobs']
    spec: dict[str, Any] = job['template']['spec']
    pod = spec['template']['spec']
    (container,) = pod['containers']
    (rule,) = spec['podFailurePolicy']['rules']
    assert (rule['onExitCodes']['containerName'], rule['onExitCodes']['values']) == (container['name'], [2])
    assert (pod['restartPolicy'], spec['backoffLimit'], job['replicas']) == ('Never', 0, 1)
    assert {each['name'] for each in container['volumeMounts']} == {each['name'] for each in pod['volumes']}
    assert '/shared' in {each['mountPath'] for each in container['volumeMounts']}
    assert container['image'] == f'my-registry/flax-transformer:{flax_transformer.__version__}'

    name = jobset['metadata']['name']
    (command,) = container['args']
    assert container['command'] == ['bash', '-c']
    assert command.startswith('exec ')  # so that SIGTERM reaches it
    parallel = read(command.replace('$JOB_COMPLETION_INDEX', '3')).config.parallel
    assert spec['completions'] == spec['parallelism'] == 4
    assert spec['completionMode'] == 'Indexed'
    if 'tpu' in file:  # 16 chips, 4 on each host, and GKE tells JAX who is who
        assert parallel == ParallelConfig('mesh', num_processes=0, process_timeout=600)
        assert pod['nodeSelector']['cloud.google.com/gke-tpu-topology'] == '4x4'
        assert container['resources']['limits'] == {'google.com/tpu': 4}
    else:
        assert parallel.coordinator == f'{name}-{job["name"]}-0-0.{name}:9911'
        assert (parallel.num_processes, parallel.process_id) == (4, 3)
