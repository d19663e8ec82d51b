"""deploy/: the manifests are valid, agree with each other and with the pinned versions, and name existing things."""

import inspect
import json
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from prefect.utilities.templating import apply_values

from flows.cli.commands import services
from tasks.serving.limits import MOST_SECONDS
from tests.pipeline.command import CHECKOUT

pytestmark = pytest.mark.long

DEPLOY = CHECKOUT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
POOLS = {"docker-pool": "Docker", "kubernetes-pool": "Kubernetes", "kubernetes-gpu-pool": "Kubernetes"}
KUBERNETES = "1.33"  # the version whose schemas validate the manifests


def resources() -> list[dict]:
    return [item for path in MANIFESTS for item in yaml.safe_load_all(path.read_text()) if item]


def compose() -> dict:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def tool(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).with_name(name)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@cache
def help_of_prefect(*words: str) -> str:
    """Return the help of a Prefect command, which must exist."""
    helped = tool("prefect", *words, "--help")
    assert helped.returncode == 0, helped.stderr
    return helped.stdout


def containers() -> dict[str, dict]:
    """Return name -> container of the Kubernetes manifests."""
    specs = [item["spec"]["template"]["spec"] for item in resources() if "template" in item.get("spec", {})]
    return {container["name"]: container for spec in specs for container in spec["containers"]}


def test_the_dockerfile_and_the_compose_file_pass_their_linters() -> None:
    for done in (
        tool("hadolint", str(DEPLOY / "Dockerfile")),
        tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")),
        tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "serve.yaml")),
        tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "dask.yaml")),
    ):
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_manifests_are_valid_by_the_schemas_of_kubernetes() -> None:
    import kubernetes_validate

    found = resources()
    assert {"StatefulSet", "Deployment", "Service", "PersistentVolumeClaim", "Role"} <= {r["kind"] for r in found}
    for item in found:
        kubernetes_validate.validate(item, KUBERNETES, strict=True)
        assert "namespace" not in item["metadata"]


def test_services_and_addresses_name_ports_of_containers() -> None:
    ports = {name: {port["containerPort"] for port in box.get("ports", [])} for name, box in containers().items()}
    services = {r["metadata"]["name"]: r["spec"]["ports"][0]["port"] for r in resources() if r["kind"] == "Service"}
    assert services == {"kgcal-postgres": 5432, "kgcal-mlflow": 5000, "kgcal-prefect": 4200, "kgcal-dask": 8786}
    for name, port in services.items():
        assert port in ports[name.removeprefix("kgcal-")]
    text = "".join(path.read_text() for path in [*MANIFESTS, *DEPLOY.glob("kubernetes*.json")])
    assert set(re.findall(r"http://(kgcal-[a-z]+):(\d+)", text)) == {
        ("kgcal-prefect", "4200"),
        ("kgcal-mlflow", "5000"),
    }
    text = (DEPLOY / "compose.yaml").read_text() + (DEPLOY / "docker-pool.json").read_text()
    for host, port in re.findall(r"http://([a-z0-9]+):(\d+)", text):
        assert (host, port) in {("s3", "9000"), ("mlflow", "5000"), ("prefect", "4200")}


def commands() -> list[list[str]]:
    boxes = [*containers().values(), *compose()["services"].values(), *dask_services().values()]
    return [box["command"] for box in boxes if "command" in box]


def dask_services() -> dict[str, dict]:
    return yaml.safe_load((DEPLOY / "dask.yaml").read_text())["services"]


def test_the_commands_exist_with_their_options() -> None:
    from mlflow.cli import cli as mlflow_cli  # it takes a second

    mlflow = [command for command in commands() if command[0] == "mlflow"]
    assert len(mlflow) == 2
    for command in mlflow:
        known = {o for p in mlflow_cli.commands["server"].params for o in p.opts}
        assert {part.split("=")[0] for part in command[2:]} <= known
    for command in commands():
        if command[0] == "prefect":
            options = {part.split("=")[0] for part in command if part.startswith("--")}
            words = [part for part in command[1:] if not part.startswith("-")]
            assert all(option in help_of_prefect(*words) for option in options), command
        if command[0] == "dask":
            options = {part.split("=")[0] for part in command if part.startswith("--")}
            known = re.findall(r"--[a-z-]+", tool("dask", command[1], "--help").stdout)
            assert options <= set(known), command


def test_the_scheduler_of_a_cluster_is_reached_by_its_workers_and_by_nobody_outside() -> None:
    services = dask_services()
    assert not any("ports" in box for box in services.values())
    places = {"scheduler": services["scheduler"]["command"], "kgcal-dask": containers()["dask"]["command"]}
    workers = services["worker"]["command"], containers()["dask-worker"]["command"]
    for (host, scheduler), worker in zip(places.items(), workers, strict=True):
        assert "--port=8786" in scheduler
        assert worker[2] == f"tcp://{host}:8786"
    [policy] = [item["spec"] for item in resources() if item["kind"] == "NetworkPolicy"]
    assert {"kgcal-dask", "kgcal-dask-worker"} == set(policy["podSelector"]["matchExpressions"][0]["values"])
    assert policy["ingress"] == [{"from": [{"podSelector": {}}]}]


def test_mlflow_accepts_its_own_host_name_and_prefect_sends_no_analytics() -> None:
    for box, host in ((containers()["mlflow"], "kgcal-mlflow:5000"), (compose()["services"]["mlflow"], "mlflow:5000")):
        [hosts] = [part.split("=")[1] for part in box["command"] if part.startswith("--allowed-hosts=")]
        assert host in hosts.split(",")
    env = {entry["name"]: entry.get("value") for entry in containers()["prefect"]["env"]}
    assert env["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert compose()["services"]["prefect"]["environment"]["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"


def test_only_the_proxy_of_a_served_model_publishes_a_port_and_it_asks_for_a_password() -> None:
    file = yaml.safe_load((DEPLOY / "serve.yaml").read_text())
    serve, proxy = file["services"]["serve"], file["services"]["proxy"]
    assert "ports" not in serve
    assert proxy["ports"] == ["443:443"]
    assert [config["source"] for config in proxy["configs"]] == list(file["configs"]) == ["caddyfile"]
    caddy = (DEPLOY / file["configs"]["caddyfile"]["file"]).read_text()
    assert caddy.index("basicauth") < caddy.index("reverse_proxy serve:8080")
    assert set(re.findall(r"\{\$(\w+)\}", caddy)) == set(proxy["environment"])
    assert f"read_body {MOST_SECONDS:g}s" in caddy
    assert f"response_header_timeout {MOST_SECONDS + 10:g}s" in caddy
    options = {f"--{name.replace('_', '-')}" for name in inspect.signature(services.serve).parameters}
    assert {part.partition("=")[0] for part in serve["command"][2:]} <= options


def test_the_files_contain_no_secret_and_publish_ports_on_loopback_only() -> None:
    for line in (DEPLOY / "env.example").read_text().splitlines():
        assert line.startswith("#") or line.endswith("=")
    required = set(re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose.yaml").read_text()))
    assert required == set(re.findall(r"^(\w+)=", (DEPLOY / "env.example").read_text(), re.MULTILINE))
    published = [port for service in compose()["services"].values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    for box in containers().values():
        for entry in box["env"]:
            if any(word in entry["name"] for word in ("PASSWORD", "SECRET", "STORE_URI", "CONNECTION_URL")):
                assert "secretKeyRef" in entry["valueFrom"], entry["name"]


def test_the_image_has_this_version_and_the_pinned_packages() -> None:
    version = re.search(r'^version = "(.+)"', (CHECKOUT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    texts = [path.read_text() for path in DEPLOY.rglob("*") if path.is_file()]
    assert {tag for text in texts for tag in re.findall(r"\bkgcal:(\d[\w.]*)", text)} == {version[1]}
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    assert "--require-hashes --no-deps --requirement deploy/requirements.txt" in dockerfile
    assert "--constraint constraints.txt" in dockerfile
    for source in re.findall(r"^COPY ((?:\S+ )+)\S+$", dockerfile, re.MULTILINE):
        assert all((CHECKOUT / name).exists() for name in source.split())
    extras = re.findall(r"--extra (\w+)", (CHECKOUT / ".ci" / "lock").read_text())
    assert {"postgres", "s3", "docker", "kubernetes", "dask"} <= set(extras)
    assert all(f"\n{extra} = [" in (CHECKOUT / "pyproject.toml").read_text() for extra in extras)


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_template_is_valid_for_its_worker(name: str) -> None:
    import kubernetes_validate  # not at the head: with Kubernetes' own package it takes 2 s in each process of pytest

    kind = POOLS[name]
    module = import_module(f"prefect_{kind.lower()}.worker")
    worker, configuration = getattr(module, f"{kind}Worker"), getattr(module, f"{kind}WorkerJobConfiguration")
    template = json.loads((DEPLOY / f"{name}.json").read_text())
    default = worker.get_default_base_job_template()
    assert set(template["variables"]["properties"]) == set(default["variables"]["properties"])
    defaults = {n: p["default"] for n, p in template["variables"]["properties"].items() if "default" in p}
    job_configuration = configuration(**apply_values(template["job_configuration"], defaults, remove_notset=True))
    threads = int(job_configuration.env["OMP_NUM_THREADS"])
    if name == "docker-pool":
        assert job_configuration.container_create_kwargs["nano_cpus"] == threads * 10**9
        known = set(compose()["volumes"])
        assert {volume.split(":")[0].removeprefix("kgcal_") for volume in job_configuration.volumes} <= known
        return
    job = job_configuration.job_manifest | {"metadata": {"generateName": "run-"}}
    job["spec"]["template"]["spec"]["containers"][0] |= {"env": [], "args": ["true"]}  # each flow run has its own value
    kubernetes_validate.validate(job, KUBERNETES, strict=True)
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["cpu"] == str(threads)
    assert limits.get("nvidia.com/gpu", 0) == (1 if name == "kubernetes-gpu-pool" else 0)
    claims = {r["metadata"]["name"] for r in resources() if r["kind"] == "PersistentVolumeClaim"}
    assert {v["persistentVolumeClaim"]["claimName"] for v in job["spec"]["template"]["spec"]["volumes"]} == claims
