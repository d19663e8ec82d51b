"""`kgcal serve` behind Caddy with deploy/Caddyfile: what deploy/serve.yaml starts, on loopback addresses."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from string import Template

import httpx
import pytest
import yaml

from tasks.serving.limits import MOST_BYTES
from tests.e2e.local import until
from tests.e2e.serving import started, written
from tests.pipeline.command import CHECKOUT
from tests.pipeline.finished import finished
from tests.ports import free_port

pytestmark = pytest.mark.skipif(shutil.which("caddy") is None, reason="Caddy is not installed: run .ci/caddy")
DEPLOY = CHECKOUT / "deploy"
HOST, STRANGER = "kg.localhost", "other.localhost"  # the proxy passes on both, the server trusts the first
ANN = ("ann", "secret")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the command of the compose file; yield its host and port."""
    kgcal, _ = finished(tmp_path_factory.mktemp("serve"))
    words = yaml.safe_load((DEPLOY / "serve.yaml").read_text())["services"]["serve"]["command"]
    filled = [
        Template(word.replace(":?set it", "")).substitute(KGCAL_HOST=HOST, KGCAL_DATASET="family") for word in words
    ]
    assert filled[:3] == ["kgcal", "serve", "--host=0.0.0.0"]
    with started(kgcal, "serve", "--host=127.0.0.1", *filled[3:]) as (address, _):
        yield address.removeprefix("http://")


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, server: str) -> Iterator[int]:
    """Start Caddy with deploy/Caddyfile; yield its port."""
    folder, port = tmp_path_factory.mktemp("caddy"), free_port()
    text = (DEPLOY / "Caddyfile").read_text().replace("admin off", "admin off\n\tdefault_bind 127.0.0.1")
    (folder / "Caddyfile").write_text(text.replace("serve:8080", server))
    hashed = subprocess.run(
        ["caddy", "hash-password", "--plaintext", ANN[1]], capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = os.environ | {
        "KGCAL_HOST": f"{HOST}:{port}, {STRANGER}:{port}",
        "KGCAL_USER": ANN[0],
        "KGCAL_PASSWORD_HASH": hashed,
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
    }
    words, log = ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")], folder / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(words, env=environment, stdout=output, stderr=output)
    try:
        until(lambda: process.poll() is not None or answers(port))
        assert process.poll() is None, written(log)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)


def ask(port: int, host: str = HOST, auth: tuple[str, str] | None = None, file: bytes = b"") -> httpx.Response:
    """Send a file, or ask for the health, by the name of a host that is this machine."""
    method, path = ("POST", "file?format=csv") if file else ("GET", "health")
    with httpx.Client(verify=False, timeout=60) as client:  # the proxy signs the certificate of such a host itself
        return client.request(
            method,
            f"https://127.0.0.1:{port}/{path}",
            headers={"host": f"{host}:{port}"},
            extensions={"sni_hostname": host},
            auth=auth,
            content=file,
        )


def answers(port: int) -> bool:
    try:
        return ask(port).status_code == 401
    except httpx.TransportError:
        return False


def test_only_who_has_the_password_is_answered(proxy: int) -> None:
    assert ask(proxy).status_code == 401
    assert ask(proxy, auth=("ann", "guess")).status_code == 401
    assert ask(proxy, auth=("eve", "secret")).status_code == 401
    health = ask(proxy, auth=ANN)
    assert health.status_code == 200
    assert health.json()["model"]["dataset"] == "family"


def test_the_server_sees_the_name_that_the_client_uses(proxy: int) -> None:
    refused = ask(proxy, STRANGER, auth=ANN)
    assert refused.status_code == 421
    assert refused.json() == {"error": f"{STRANGER}:{proxy} is not this server: name it with --trusted-host"}


def test_a_body_beyond_the_limit_is_refused_and_a_file_is_answered(proxy: int) -> None:
    file = b"subject,predicate,object\nperson_1,cousin_of,person_2\n"
    assert ask(proxy, file=file).status_code == 401
    assert ask(proxy, auth=ANN, file=file).status_code == 200
    refused = ask(proxy, auth=ANN, file=b"x" * (MOST_BYTES + 1))
    assert refused.status_code == 413
    assert refused.json() == {"error": "the body has more than 64 MiB: divide it into several requests"}


def test_the_check_of_the_compose_file_finds_the_server_healthy(server: str) -> None:
    kind, *words = yaml.safe_load((DEPLOY / "serve.yaml").read_text())["services"]["serve"]["healthcheck"]["test"]
    assert kind == "CMD"
    subprocess.run(
        [shutil.which(words[0]) or "", *(w.replace("127.0.0.1:8080", server) for w in words[1:])], check=True
    )
