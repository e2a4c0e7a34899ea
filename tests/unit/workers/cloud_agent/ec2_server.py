"""A cloud that speaks the EC2 API over HTTP: moto's server, and in front of it what moto lacks."""

from __future__ import annotations

import base64
import io
import json
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import boto3
import moto.settings
import pytest
from botocore.config import Config
from moto.ec2.models import amis
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.wrappers import Request, Response

from tests.unit.workers.cloud_agent.exam import GENEROUS, PREFIX, Fault
from tests.unit.workers.cloud_agent.faults import Broken, served
from workers.cloud_agent.drivers import make_driver, read_options
from workers.cloud_agent.drivers.base import InstanceDriver

#: Of those that moto knows from the beginning.
IMAGE, OTHER_IMAGE = "ami-12c6146b", "ami-03cf127a"
REGION = "us-east-1"
_TYPES = {1: "t2.micro", 4: "m5.xlarge"}
_ERROR = """<?xml version="1.0" encoding="UTF-8"?>
<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>
<RequestID>ea966190-f9aa-478e-9ede-cb5432daacc0</RequestID></Response>"""


def error(code: str, message: str, status: int) -> Response:
    """As EC2 writes it."""
    return Response(_ERROR.format(code=code, message=message), status, mimetype="text/xml")


#: One for all: it makes an application of each service, which takes longer than most tests.
_MOTO = DomainDispatcherApplication(create_backend_app)


class Front:
    """Answers for EC2 what moto does not: client tokens, a cloud that is full, and answers that a test gives.

    EC2 starts nothing twice for one ClientToken, and refuses one that comes with other parameters ("Ensuring
    idempotency in Amazon EC2 API requests"). moto stores the token and no more.
    """

    def __init__(self) -> None:
        self.full = False
        self.given: dict[str, Response] = {}
        self.seen: list[dict[str, str]] = []
        self._tokens: dict[str, tuple[str, bytes]] = {}
        self._lock = threading.Lock()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        asked = dict(parse_qsl(request.get_data().decode()))
        return self._answer(asked, request)(environ, start_response)

    def _answer(self, asked: dict[str, str], request: Request) -> Any:
        action = asked.get("Action", "")
        with self._lock:
            self.seen.append(asked)
            if action in self.given:
                return self.given[action]
            if action != "RunInstances":
                return self._of_moto(request)
            token, rest = asked.get("ClientToken"), json.dumps({**asked, "Version": ""}, sort_keys=True)
            if token in self._tokens:
                before, text = self._tokens[token]
                if before != rest:
                    return error(
                        "IdempotentParameterMismatch",
                        "The client token you have provided is associated with a resource that was created "
                        "with different parameters",
                        400,
                    )
                return Response(text, 200, mimetype="text/xml")
            if self.full:
                return error(
                    "InsufficientInstanceCapacity",
                    "We currently do not have sufficient capacity in the Availability Zone you requested "
                    "(us-east-1a). Our system will be working on provisioning additional capacity.",
                    500,
                )
            answer = self._of_moto(request)
            if token and answer.status_code == 200:
                self._tokens[token] = (rest, answer.get_data())
            return answer

    def _of_moto(self, request: Request) -> Response:
        """Its whole answer to the same request."""
        body = io.BytesIO(request.get_data())
        return Response.from_app(_MOTO, {**request.environ, "wsgi.input": body}, buffered=True)


class Ec2Scene:
    """The account of a cloud "A" at moto's."""

    def __init__(self, front: Front, broken: Broken, url: str, go_away: Any, directory: Path):
        self.front = front
        self.url = url
        self.go_away = go_away
        self._broken = broken
        self._directory = directory
        (directory / "start.sh").write_text("#!/bin/sh\necho from the file\n")
        (directory / "prefix.sh").write_text(PREFIX.format(directory=directory))
        self.post("/moto-api/reset", b"")
        iam = self.client("iam", "any", "any")
        iam.create_user(UserName="spotfed")
        key = iam.create_access_key(UserName="spotfed")["AccessKey"]
        self.user, self.secret = key["AccessKeyId"], key["SecretAccessKey"]
        rights = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}],
        }
        iam.put_user_policy(UserName="spotfed", PolicyName="ec2", PolicyDocument=json.dumps(rights))

    @cached_property
    def ec2(self) -> Any:
        """A client of another making than the driver's, for whoever else uses the cloud."""
        return self.client("ec2", self.user, self.secret)

    def post(self, path: str, body: bytes) -> None:
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data=body)) as answer:
            answer.read()

    def client(self, service: str, user: str, secret: str) -> Any:
        return boto3.client(
            service, region_name=REGION, endpoint_url=self.url, aws_access_key_id=user,
            aws_secret_access_key=secret, config=Config(retries={"total_max_attempts": 1}),
        )  # fmt: skip

    def driver(self, **changes: Any) -> InstanceDriver:
        cloud, secret = changes.pop("cloud", "A"), changes.pop("secret", self.secret)
        table = {
            "driver": "ec2", "endpoint": self.url, "region": REGION, "image": IMAGE,
            "sizes": {str(cores): size for cores, size in _TYPES.items()}, "user_data": "start.sh",
            "allow": {"user_data": True}, **changes,
        }  # fmt: skip
        return make_driver(
            read_options(table, "cloud[0].instances", self._directory), cloud, self.user, secret
        )

    def foreign(self, cores: int, marks: dict[str, str] | None = None) -> str:
        tags = [{"Key": key, "Value": value} for key, value in (marks or {}).items()]
        more = {"TagSpecifications": [{"ResourceType": "instance", "Tags": tags}]} if tags else {}
        started = self.ec2.run_instances(
            ImageId=IMAGE, InstanceType=_TYPES[cores], MinCount=1, MaxCount=1, **more
        )
        return str(started["Instances"][0]["InstanceId"])

    def copy(self, name: str) -> str:
        (reservation,) = self.ec2.describe_instances(InstanceIds=[name])["Reservations"]
        tags = {tag["Key"]: tag["Value"] for tag in reservation["Instances"][0]["Tags"]}
        return self.foreign(1, tags)

    def settle(self) -> None:
        """moto does it all at once."""

    def take_back(self, name: str) -> None:
        self.ec2.terminate_instances(InstanceIds=[name])

    def equipped(self) -> tuple[InstanceDriver, dict[str, int], dict[str, str]]:
        amounts = {"disk_gb": 100, "gpus": 1, "memory_mb": 16_000}
        return self.driver(allow={"sizes": ["g4dn.*"]}), amounts, {"arch": "x86_64", "gpu": "T4"}

    def generous(self) -> InstanceDriver:
        return self.driver(allow={**GENEROUS, "images": {"debian-*": OTHER_IMAGE}})

    def chosen(self, name: str) -> tuple[str, str]:
        (reservation,) = self.ec2.describe_instances(InstanceIds=[name])["Reservations"]
        found = reservation["Instances"][0]
        (key,) = self.ec2.describe_key_pairs(KeyNames=[found["KeyName"]], IncludePublicKey=True)["KeyPairs"]
        return found["ImageId"], " ".join(key["PublicKey"].split()[:2])

    def own_image(self) -> str:
        return OTHER_IMAGE

    def keys(self) -> list[str]:
        return [key["KeyName"] for key in self.ec2.describe_key_pairs()["KeyPairs"]]

    def has_all(self, name: str, amounts: dict[str, int]) -> bool:
        (reservation,) = self.ec2.describe_instances(InstanceIds=[name])["Reservations"]
        size = reservation["Instances"][0]["InstanceType"]
        (described,) = self.ec2.describe_instance_types(InstanceTypes=[size])["InstanceTypes"]
        has = {
            "disk_gb": described.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
            "gpus": sum(one["Count"] for one in described.get("GpuInfo", {}).get("Gpus", [])),
            "memory_mb": described["MemoryInfo"]["SizeInMiB"],
        }
        return all(has[resource] >= amount for resource, amount in amounts.items())

    def fill(self) -> None:
        self.front.full = True

    def break_down(self, fault: Fault) -> None:
        self._broken.fault = fault

    def user_data(self, name: str) -> str:
        told = self.ec2.describe_instance_attribute(InstanceId=name, Attribute="userData")
        return base64.b64decode(told["UserData"]["Value"]).decode()

    def marks(self, name: str) -> dict[str, str]:
        """Its tags, which its metadata service shows only where its options say so."""
        (reservation,) = self.ec2.describe_instances(InstanceIds=[name])["Reservations"]
        (found,) = reservation["Instances"]
        shown = found["MetadataOptions"]["InstanceMetadataTags"] == "enabled"
        return {tag["Key"]: tag["Value"] for tag in found["Tags"]} if shown else {}


@contextmanager
def ec2_scene(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2Scene]:
    """Signatures and rights are checked, and unknown images and sizes refused, as by the real one."""
    # The images that moto knows take longer to list than most tests.
    known = [image for image in amis.AMIS if image["ami_id"] in (IMAGE, OTHER_IMAGE)]
    monkeypatch.setattr(amis, "AMIS", known)
    monkeypatch.setenv("MOTO_AMIS_PATH", "these only")
    monkeypatch.setattr(moto.settings, "ENABLE_AMI_VALIDATION", True)
    monkeypatch.setattr(moto.settings, "EC2_ENABLE_INSTANCE_TYPE_VALIDATION", True)
    front = Front()
    broken = Broken(front)
    with served(broken) as (url, go_away):
        scene = Ec2Scene(front, broken, url, go_away, directory)
        monkeypatch.setattr(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)
        yield scene
