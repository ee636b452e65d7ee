"""Files of `infra/` against the schemas that packages bring; an error in one of them is seen."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from prefect.cli.deploy._models import PrefectYamlModel
from pydantic import ValidationError
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr

INFRA = Path(__file__).parents[1] / "infra"
BIN = Path(sys.executable).parent


def read(name: str) -> Any:
    return yaml.safe_load((INFRA / name).read_text())


def compose_errors(content: Any, folder: Path) -> str:
    """What the Compose specification's schema, as check-jsonschema ships it, has against a file; empty if nothing."""
    (folder / "compose.yaml").write_text(yaml.safe_dump(content))
    command = [
        *(str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"),
        str(folder / "compose.yaml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def test_the_compose_file_is_one(tmp_path: Path) -> None:
    assert compose_errors(read("compose.yaml"), tmp_path) == ""


@pytest.mark.parametrize(("key", "value"), [("commands", "true"), ("ports", "4200:4200"), ("healthcheck", [])])
def test_a_wrong_key_and_a_wrong_type_in_a_compose_file_are_seen(tmp_path: Path, key: str, value: Any) -> None:
    content = read("compose.yaml")
    content["services"]["prefect"][key] = value
    assert key in compose_errors(content, tmp_path)


def test_services_that_others_wait_for_say_whether_they_are_well() -> None:
    services = read("compose.yaml")["services"]
    assert {"prefect", "worker", "mlflow", "postgres", "s3", "ray-head"} <= set(services)
    for name, service in services.items():
        for other, wait in service.get("depends_on", {}).items():
            well = {"service_healthy": "healthcheck", "service_completed_successfully": "command"}[wait["condition"]]
            assert well in services[other], f"{name} waits for {other}"
    assert "healthcheck" in services["worker"]


def pods(cluster: Any) -> list[Any]:
    """The pods of a RayCluster, each as a manifest of its own."""
    spec = cluster["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    return [{"apiVersion": "v1", "kind": "Pod", "spec": group["template"]["spec"]} for group in groups]


def check_pods(cluster: Any) -> None:
    for pod in pods(cluster):
        kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


def autoscaling(cluster: Any) -> Any:
    """What Ray's own autoscaler reads there; Kubernetes adds the namespace."""
    named = copy.deepcopy(cluster)
    named["metadata"]["namespace"] = "default"
    return _derive_autoscaling_config_from_ray_cr(named)


def test_pods_are_of_kubernetes_schema_and_not_root() -> None:
    cluster = read("kuberay.yaml")
    check_pods(cluster)
    assert all(pod["spec"]["securityContext"]["runAsNonRoot"] for pod in pods(cluster))


@pytest.mark.parametrize(("key", "value"), [("command", "ray"), ("imagePullPolicies", "Always"), ("volumeMounts", {})])
def test_a_wrong_key_and_a_wrong_type_in_a_pod_are_seen(key: str, value: Any) -> None:
    cluster = copy.deepcopy(read("kuberay.yaml"))  # safe_load shares what the file's anchors name
    cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0][key] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        check_pods(cluster)


def test_rays_autoscaler_reads_the_cluster() -> None:
    cluster = read("kuberay.yaml")
    assert cluster["spec"]["enableInTreeAutoscaling"] is True
    found = autoscaling(cluster)
    head, workers = (found["available_node_types"][name] for name in ("headgroup", "workers"))
    assert (head["resources"]["CPU"], workers["resources"]["CPU"]) == (0, 4)
    assert (workers["min_workers"], workers["max_workers"]) == (0, 16)
    assert found["idle_timeout_minutes"] == 5.0


def test_a_group_of_workers_without_its_most_is_seen() -> None:
    cluster = read("kuberay.yaml")
    del cluster["spec"]["workerGroupSpecs"][0]["maxReplicas"]
    with pytest.raises(KeyError, match="maxReplicas"):
        autoscaling(cluster)


def unknown(content: Any) -> set[str]:
    """Keys of deployments that Prefect's model has no field for: it would ignore them."""
    model = PrefectYamlModel.model_validate(content)
    fields = type(model.deployments[0]).model_fields
    return {key for deployment in content["deployments"] for key in deployment} - set(fields)


def test_deployments_are_of_prefects_model() -> None:
    assert unknown(read("prefect.yaml")) == set()


@pytest.mark.parametrize(
    ("key", "value"), [("schedules", [{"crons": "0 3 * * *"}]), ("parameters", []), ("concurrency_limit", "one")]
)
def test_a_wrong_type_in_a_deployment_is_seen(key: str, value: Any) -> None:
    content = read("prefect.yaml")
    content["deployments"][0][key] = value
    with pytest.raises(ValidationError, match=key):
        PrefectYamlModel.model_validate(content)


def test_a_wrong_key_in_a_deployment_is_seen() -> None:
    content = read("prefect.yaml")
    content["deployments"][0]["schedulez"] = []
    assert unknown(content) == {"schedulez"}


def hadolint(path: Path) -> str:
    done = subprocess.run([BIN / "hadolint", "--no-color", path], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_image_is_described_well() -> None:
    assert hadolint(INFRA / "Dockerfile") == ""


@pytest.mark.parametrize(
    ("old", "new", "rule"), [("USER 1000", "USER root", "DL3002"), ("RUN pip", "RUM pip", "unexpected")]
)
def test_a_wrong_line_of_the_image_is_seen(tmp_path: Path, old: str, new: str, rule: str) -> None:
    changed = tmp_path / "Dockerfile"
    changed.write_text((INFRA / "Dockerfile").read_text().replace(old, new, 1))
    assert rule in hadolint(changed)
