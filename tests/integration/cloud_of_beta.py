"""The real cloud of the second host: moto's server behind TLS, and those who use it without spotfed."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.hosts import Host
from tests.support.wait import wait_until

NAME, PORT = "ec2.beta.example", 8773

_CERTIFICATE = f"""
cd /root/ca
printf 'subjectAltName=DNS:{NAME}\\nauthorityKeyIdentifier=keyid\\n' > ec2.ext
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ec2.key -out ec2.csr -subj /CN=ec2
openssl x509 -req -in ec2.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 -extfile ec2.ext -out ec2.pem
scp ec2.key ec2.pem beta.example:/root/
"""
_SERVE = f"""
from moto.server import main
main(["-H", "127.0.0.1", "-p", "{PORT}", "-s", "-c", "/root/ec2.pem", "-k", "/root/ec2.key"])
"""
_CLIENT = f"""
import boto3, json
ec2 = boto3.client(
    "ec2", "us-east-1", endpoint_url="https://{NAME}:{PORT}", verify="/etc/spotfed/ca.pem",
    aws_access_key_id="somebody", aws_secret_access_key="else",
)
"""
_STATES = """
found = [one for part in ec2.describe_instances()["Reservations"] for one in part["Instances"]]
print(json.dumps({one["InstanceId"]: one["State"]["Name"] for one in found}))
"""
_START = """
made = ec2.run_instances(ImageId="ami-12c6146b", InstanceType="m1.xlarge", MinCount={count}, MaxCount={count})
print(json.dumps([one["InstanceId"] for one in made["Instances"]]))
"""


class CloudOfBeta:
    """It listens on beta alone, with a certificate of the federation's authority."""

    def __init__(self, alpha: Host, beta: Host):
        self._beta = beta
        alpha.run(_CERTIFICATE).check_returncode()
        beta.run(
            f"echo 127.0.0.1 {NAME} >> /etc/hosts\n"
            f"setsid /opt/spotfed/bin/python - > {beta.directory}/logs/ec2.log 2>&1 <<'END' &\n{_SERVE}END"
        ).check_returncode()
        wait_until(lambda: self._ask(_STATES) is not None, "the EC2 API")

    def states(self) -> dict[str, str]:
        """Of all instances, by id."""
        return dict(self._ask(_STATES))

    def start(self, count: int) -> list[str]:
        """Instances of 4 cores for a user of the cloud, who calls it directly; their ids."""
        return list(self._ask(_START.format(count=count)))

    def _ask(self, what: str) -> Any:
        done = self._beta.run(f"/opt/spotfed/bin/python - <<'END'\n{_CLIENT}{what}END")
        return json.loads(done.stdout) if done.returncode == 0 else None
