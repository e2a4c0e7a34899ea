"""A small OpenStack cloud over HTTP: what an instance driver needs of Keystone v3 and of Nova v2.1.

Fields, statuses and forms of errors are those of the published API references (identity v3, compute).
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from werkzeug.exceptions import BadRequest, Conflict, Forbidden, HTTPException, NotFound, Unauthorized
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

IMAGE = "70a599e0-31e7-49b7-b260-868f441e862b"
#: The id of the image "Debian 12"; there are two called "twice".
NAMED_IMAGE = "5f7b7c2e-5b0e-4bdb-9a9f-0a3c7f1d2c11"
FLAVORS = {"m1.small": ("2", 1), "m1.large": ("4", 4)}
#: What Nova tells of them beside their cores; and one that leases get only where the file allows it.
DESCRIBED: dict[str, dict[str, Any]] = {
    "m1.small": {"ram": 2048, "disk": 20, "extra_specs": {}},
    "m1.large": {"ram": 8192, "disk": 20, "OS-FLV-EXT-DATA:ephemeral": 60, "extra_specs": {"hw:x": "y"}},
    "g1.large": {
        "ram": 65536, "disk": 100,
        "extra_specs": {
            "resources:VGPU": "1", "pci_passthrough:alias": "a100-gpu:1,fpga:2",
            "aggregate_instance_extra_specs:zone": "north", "trait:HW_CPU_X86_AVX2": "required",
        },
    },
}  # fmt: skip
FLAVORS_OF_OTHERS = {"g1.large": ("9", 4)}
USER, SECRET, PROJECT = "spotfed", "s3cret", "leases"
APPLICATION_CREDENTIAL = "423f19a4ac1e4f48bbb4180756e6eb6c"
_MOST_CORES = 200
#: As Nova names its errors (nova.api.openstack.wsgi.Fault).
_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    409: "conflictingRequest",
}


def _now() -> datetime:
    return datetime.now(UTC)


def _written(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


class NovaServer:
    """Everything it holds, and its application.

    Servers are built and deleted when ``settle`` says so, as Nova does it after its answer.
    """

    def __init__(self) -> None:
        self.servers: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, str] = {}
        self.networks = ["1f3b"]
        self.hypervisors: dict[str, Any] = {}  # by host, its inventories
        self.disabled: set[str] = set()
        self.image_status = "ACTIVE"
        self.full = False
        self.tokens_s = 3600.0
        self.tokens: dict[str, tuple[str, float]] = {}
        self.page = 25
        self.shown = 0
        self.admins = {PROJECT}
        self._lock = threading.Lock()
        self._addresses = itertools.count(2)
        self._rules = Map(
            [
                Rule("/identity/v3/auth/tokens", methods=["POST"], endpoint=self._token),
                Rule("/compute/v2.1/servers", methods=["POST"], endpoint=self._create),
                Rule("/compute/v2.1/servers/detail", methods=["GET"], endpoint=self._detail),
                Rule("/compute/v2.1/servers/<name>", methods=["GET"], endpoint=self._show),
                Rule("/compute/v2.1/servers/<name>", methods=["PUT"], endpoint=self._update),
                Rule("/compute/v2.1/servers/<name>", methods=["DELETE"], endpoint=self._delete),
                Rule("/compute/v2.1/servers/<name>/metadata", methods=["POST"], endpoint=self._metadata),
                Rule("/compute/v2.1/flavors/detail", methods=["GET"], endpoint=self._flavors),
                Rule("/compute/v2.1/images", methods=["GET"], endpoint=self._images),
                Rule("/compute/v2.1/images/<name>", methods=["GET"], endpoint=self._image),
                Rule("/compute/v2.1/os-networks", methods=["GET"], endpoint=self._networks),
                Rule("/compute/v2.1/os-security-groups", methods=["GET"], endpoint=self._groups),
                Rule("/compute/v2.1/os-keypairs/<name>", methods=["GET"], endpoint=self._key),
                Rule("/compute/v2.1/os-keypairs", methods=["POST"], endpoint=self._put_key),
                Rule("/compute/v2.1/os-keypairs/<name>", methods=["DELETE"], endpoint=self._delete_key),
                Rule("/compute/v2.1/os-hypervisors/detail", methods=["GET"], endpoint=self._list_hypervisors),
                Rule("/placement/resource_providers/<name>/inventories", endpoint=self._inventories),
                Rule("/compute/v2.1/limits", methods=["GET"], endpoint=self._limits),
            ]
        )

    def __call__(self, environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        try:
            endpoint, found = self._rules.bind_to_environ(environ).match()
            with self._lock:
                if endpoint == self._token:
                    return endpoint(request)(environ, start_response)
                answer, status = endpoint(request, self._project(request), **found)
        except HTTPException as error:
            name = _NAMES.get(error.code or 0, "computeFault")
            answer, status = {name: {"code": error.code, "message": error.description}}, error.code or 500
        return Response(_json(answer), status, mimetype="application/json")(environ, start_response)

    def settle(self) -> None:
        with self._lock:
            for server in list(self.servers.values()):
                if server["OS-EXT-STS:task_state"] == "deleting":
                    del self.servers[server["id"]]
                elif server["status"] == "BUILD" and server.pop("_placed"):
                    address = {"addr": f"10.0.0.{next(self._addresses)}", "version": 4}
                    host = (server["_zone"] or "").partition(":")[2] or "somewhere"
                    server |= {
                        "OS-EXT-SRV-ATTR:host": host, "status": "ACTIVE",
                        "OS-SRV-USG:launched_at": _written(_now())[:-1] + ".000000",
                        "OS-EXT-STS:task_state": None, "addresses": {"private": [address]},
                    }  # fmt: skip
                elif server["status"] == "BUILD":
                    why = "No valid host was found. There are not enough hosts available."
                    fault = {"code": 500, "created": _written(_now()), "message": why}
                    server |= {"status": "ERROR", "OS-EXT-STS:task_state": None, "fault": fault}

    def add(self, project: str, asked: dict[str, Any]) -> str:
        """A server, in the words of a request."""
        flavors = {**FLAVORS, **FLAVORS_OF_OTHERS}
        flavor = next((one for one in flavors.items() if one[1][0] == asked["flavorRef"]), None)
        if flavor is None:
            raise BadRequest(f"Flavor {asked['flavorRef']} could not be found.")
        if asked["imageRef"] not in (IMAGE, NAMED_IMAGE):
            raise BadRequest(f"Can not find requested image {asked['imageRef']}.")
        for key, value in asked.get("metadata", {}).items():
            if not re.fullmatch(r"[a-zA-Z0-9\-_:. ]{1,255}", key) or len(value) > 255:
                raise BadRequest(f"Invalid input for field/attribute metadata. Value: {key!r}")
        used = sum(server["flavor"]["vcpus"] for server in self._of(project))
        if used + flavor[1][1] > _MOST_CORES:
            raise Forbidden(
                f"Quota exceeded for cores: Requested {flavor[1][1]}, "
                f"but already used {used} of {_MOST_CORES} cores"
            )
        name = str(uuid.uuid4())
        self.servers[name] = {
            "id": name, "name": asked["name"], "tenant_id": project, "status": "BUILD", "addresses": {},
            "metadata": dict(asked.get("metadata", {})), "created": _written(_now()),
            "flavor": {
                "original_name": flavor[0], "vcpus": flavor[1][1], "ram": 2048, "disk": 20, "ephemeral": 0,
                "extra_specs": DESCRIBED[flavor[0]]["extra_specs"],
            },
            "OS-EXT-STS:task_state": "scheduling", "OS-SRV-USG:launched_at": None,
            "key_name": asked.get("key_name"), "description": asked.get("description"),
            "user_id": "their-user", "_image": asked["imageRef"], "_asked": asked,
            "OS-EXT-SRV-ATTR:host": None, "_placed": not self.full,
            "_zone": asked.get("availability_zone"), "_user_data": asked.get("user_data", ""),
        }  # fmt: skip
        return name

    def user_data(self, name: str) -> str:
        return base64.b64decode(self.servers[name]["_user_data"]).decode()

    def _of(self, project: str) -> list[dict[str, Any]]:
        return [server for server in self.servers.values() if server["tenant_id"] == project]

    def _token(self, request: Request) -> Response:
        asked = request.get_json()["auth"]
        identity = asked["identity"]
        if identity["methods"] == ["application_credential"]:
            given = identity["application_credential"]
            known = given == {"id": APPLICATION_CREDENTIAL, "secret": SECRET} and "scope" not in asked
            project = PROJECT
        else:
            user = identity["password"]["user"]
            known = user == {"name": USER, "password": SECRET, "domain": {"name": "Default"}}
            known = known and asked["scope"]["project"]["domain"] == {"id": "default"}
            project = asked["scope"]["project"]["name"]
        if not known:
            text = {"error": {"code": 401, "message": "The request you have made requires authentication.",
                              "title": "Unauthorized"}}  # fmt: skip
            return Response(_json(text), 401, mimetype="application/json")
        token = uuid.uuid4().hex
        self.tokens[token] = (project, time.monotonic() + self.tokens_s)
        compute, placement = (
            [
                {"id": uuid.uuid4().hex, "interface": interface, "region": region, "region_id": region,
                 "url": f"{request.host_url}{path}" if (region, interface) == ("here", "internal")
                 else "http://127.0.0.1:9/v2.1"}
                for region in ("elsewhere", "here") for interface in ("public", "internal", "admin")
            ]
            for path in ("compute/v2.1", "placement")
        )  # fmt: skip
        body = {
            "token": {
                "methods": identity["methods"], "user": {"id": "1", "name": USER},
                "project": {"name": project},
                "roles": [{"id": "2", "name": "member"}], "issued_at": _written(_now()),
                "expires_at": _written(_now() + timedelta(hours=1)).replace("Z", ".000000Z"),
                "catalog": [
                    {"type": "image", "name": "glance", "id": "3", "endpoints": []},
                    {"type": "compute", "name": "compute-service", "id": "4", "endpoints": compute},
                    {"type": "placement", "name": "placement", "id": "5", "endpoints": placement},
                ],
            }
        }  # fmt: skip
        return Response(_json(body), 201, {"X-Subject-Token": token}, mimetype="application/json")

    def _project(self, request: Request) -> str:
        project, until = self.tokens.get(request.headers.get("X-Auth-Token", ""), ("", 0.0))
        if time.monotonic() > until:
            raise Unauthorized("The request you have made requires authentication.")
        return project

    def _create(self, request: Request, project: str) -> tuple[Any, int]:
        asked = request.get_json()["server"]
        name = self.add(project, asked)
        return {"server": {"id": name, "links": [], "OS-DCF:diskConfig": "MANUAL"}}, 202

    def _detail(self, request: Request, project: str) -> tuple[Any, int]:
        if request.headers.get("X-OpenStack-Nova-API-Version") != "2.47":
            raise BadRequest("before 2.47 a server tells the id of its flavor alone")
        everyone = request.args.get("all_tenants") == "1"
        if everyone and project not in self.admins:
            raise Forbidden(
                "Policy doesn't allow os_compute_api:servers:detail:get_all_tenants to be performed."
            )
        found = list(self.servers.values()) if everyone else self._of(project)
        found = [one for one in found if re.search(request.args.get("name", ""), one["name"])]
        return self._page(request, found, "servers")

    def _page(self, request: Request, found: list[dict[str, Any]], name: str) -> tuple[Any, int]:
        most = min(self.page, int(request.args.get("limit", self.page)))
        marker = request.args.get("marker")
        ids = [one["id"] for one in found]
        if marker is not None and marker not in ids:
            raise BadRequest(f"marker [{marker}] not found")
        begin = 0 if marker is None else ids.index(marker) + 1
        page = [
            {key: value for key, value in one.items() if not key.startswith("_") and key != "fault"}
            for one in found[begin : begin + most]
        ]
        answer: dict[str, Any] = {name: page}
        if begin + most < len(found):
            answer[f"{name}_links"] = [{"rel": "next", "href": f"{request.base_url}?marker={page[-1]['id']}"}]
        return answer, 200

    def _show(self, request: Request, project: str, name: str) -> tuple[Any, int]:
        self.shown += 1
        found = self._server(None if project in self.admins else project, name)
        shown = {key: value for key, value in found.items() if not key.startswith("_")}
        shown |= {"image": {"id": found["_image"], "links": []} if found["_image"] else ""}
        if project in self.admins:
            shown["OS-EXT-SRV-ATTR:user_data"] = found["_user_data"] or None
        return {"server": shown}, 200

    def _update(self, request: Request, project: str, name: str) -> tuple[Any, int]:
        if request.headers.get("X-OpenStack-Nova-API-Version") != "2.47":
            raise BadRequest("before 2.19 a server has no description")
        server = self._server(None if project in self.admins else project, name)
        if len(request.get_json()["server"]["description"]) > 255:
            raise BadRequest("Invalid input for field/attribute description.")
        server["description"] = request.get_json()["server"]["description"]
        return {"server": {"id": name}}, 200

    def _delete(self, request: Request, project: str, name: str) -> tuple[Any, int]:
        server = self._server(project, name)
        if server["status"] == "ERROR" and not server["OS-SRV-USG:launched_at"]:
            del self.servers[name]  # it is on no host
        else:
            server["OS-EXT-STS:task_state"] = "deleting"
        return None, 204

    def _metadata(self, request: Request, project: str, name: str) -> tuple[Any, int]:
        server = self._server(project, name)
        if server["status"] == "BUILD":
            raise Conflict(f"Cannot 'update metadata' instance {name} while it is in vm_state building")
        server["metadata"] |= request.get_json()["metadata"]
        return {"metadata": server["metadata"]}, 200

    def _server(self, project: str | None, name: str) -> dict[str, Any]:
        """The server, if it is one of the project; of any, if that is None."""
        server = self.servers.get(name)
        if server is None or project not in (None, server["tenant_id"]):
            raise NotFound(f"Instance {name} could not be found.")
        return server

    def _flavors(self, request: Request, project: str) -> tuple[Any, int]:
        if request.headers.get("X-OpenStack-Nova-API-Version") != "2.61":
            raise BadRequest("before 2.61 a flavor does not tell its extra specs")
        found = [
            {"id": number, "name": name, "vcpus": cores, **DESCRIBED[name]}
            for name, (number, cores) in {**FLAVORS, **FLAVORS_OF_OTHERS}.items()
        ]
        return self._page(request, found, "flavors")

    def _images(self, request: Request, project: str) -> tuple[Any, int]:
        if "X-OpenStack-Nova-API-Version" in request.headers:
            raise NotFound("The resource could not be found.")  # from 2.36 on
        names = {"Debian 12": [NAMED_IMAGE], "twice": [NAMED_IMAGE, IMAGE]}
        found = names.get(request.args["name"], [])
        return self._page(request, [{"id": one, "name": request.args["name"]} for one in found], "images")

    def _image(self, request: Request, project: str, name: str) -> tuple[Any, int]:
        if name not in (IMAGE, NAMED_IMAGE):
            raise NotFound("Image not found.")
        return {"image": {"id": name, "status": self.image_status}}, 200

    def _networks(self, request: Request, project: str) -> tuple[Any, int]:
        return {"networks": [{"id": network} for network in self.networks]}, 200

    def _groups(self, request: Request, project: str) -> tuple[Any, int]:
        return {"security_groups": [{"name": "default"}]}, 200

    def _key(self, request: Request, project: str, name: str) -> tuple[Any, int]:
        whose = request.args.get("user_id")
        if whose is not None and (project not in self.admins or whose != "their-user"):
            raise Forbidden("Policy doesn't allow os_compute_api:os-keypairs:show to be performed.")
        if name not in self.keys:
            raise NotFound(f"Keypair {name} not found for user {USER}")
        return {"keypair": {"name": name, "public_key": self.keys[name]}}, 200

    def _put_key(self, request: Request, project: str) -> tuple[Any, int]:
        asked = request.get_json()["keypair"]
        if asked["name"] in self.keys:
            raise Conflict(f"Key pair '{asked['name']}' already exists.")
        self.keys[asked["name"]] = asked["public_key"]
        return {"keypair": asked}, 200

    def _delete_key(self, request: Request, project: str, name: str) -> tuple[Any, int]:
        if self.keys.pop(name, None) is None:
            raise NotFound(f"Keypair {name} not found for user {USER}")
        return None, 202

    def _list_hypervisors(self, request: Request, project: str) -> tuple[Any, int]:
        if request.headers.get("X-OpenStack-Nova-API-Version") != "2.53":
            raise BadRequest("before 2.53 a hypervisor has a number")
        found = [
            {"id": f"uuid-of-{name}", "hypervisor_hostname": f"{name}.example.org", "service": {"host": name},
             "state": "up", "status": "disabled" if name in self.disabled else "enabled"}
            for name in self.hypervisors
        ]  # fmt: skip
        return {"hypervisors": found}, 200

    def _inventories(self, request: Request, project: str, name: str) -> tuple[Any, int]:
        return {"inventories": self.hypervisors[name.removeprefix("uuid-of-")]}, 200

    def _limits(self, request: Request, project: str) -> tuple[Any, int]:
        used = sum(server["flavor"]["vcpus"] for server in self._of(project))
        absolute = {
            "maxTotalCores": _MOST_CORES, "totalCoresUsed": used, "maxTotalInstances": 100,
            "totalInstancesUsed": len(self._of(project)), "maxTotalRAMSize": -1, "totalRAMUsed": 0,
        }  # fmt: skip
        return {"limits": {"rate": [], "absolute": absolute}}, 200


def _json(value: Any) -> bytes:
    return b"" if value is None else json.dumps(value).encode()
