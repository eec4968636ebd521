"""Random nodes and pods for the scheduler's parity test: a seed flows in, manifests flow out.

Values are drawn from few choices, so that pods collide, nodes tie and fill up, and every reason to reject a pod occurs.
"""

from random import Random
from typing import Any

from konverge.testing.kubescheduler import PARITY, PARITY_VARIANTS

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
GPU = "example.com/gpu"
APPS = ["web", "db", "cache"]
SOME = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}
IMAGES = {
    "registry.example/app:1": 400 * 2**20,
    "registry.example/huge:2": 3 * 2**30,
    "registry.example/plain:latest": 90_000_001,
    "registry.example:5000/small:1": 20 * 2**20,
}
"""The images that nodes may hold, with their sizes in bytes."""
Json = dict[str, Any]


class Workload:
    """Nodes and pods of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._node_names: list[str] = []
        self._free_ports: list[int] = []
        """Host ports that the pod which is being made does not use yet: using one twice would be invalid."""

    # Nodes

    def node(self, name: str) -> Json:
        """A node: some tainted, cordoned or without a zone, with room for few pods."""
        chance = self.random
        self._node_names.append(name)
        labels = {HOSTNAME: name, "disk": chance.choice(["ssd", "hdd"]), "cores": chance.choice(["4", "8", "many"])}
        if chance.random() < 0.9:
            labels[ZONE] = chance.choice(["zone-a", "zone-b", "zone-c"])
        capacity = {
            "cpu": chance.choice(["2", "4", "3900m"]),
            "memory": chance.choice(["4Gi", "8Gi", "7900Mi"]),
            "ephemeral-storage": "50Gi",
            "pods": str(chance.choice([4, 8, 110])),
        }
        if chance.random() < 0.4:
            capacity[GPU] = str(chance.randint(1, 4))
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "taints": [self._taint(key) for key in "ab" if chance.random() < 0.2],
                "unschedulable": chance.random() < 0.1,
            },
            "status": {"capacity": capacity, "allocatable": capacity, "images": self._held()},
        }

    def _held(self) -> list[Json]:
        held = self.random.sample(sorted(IMAGES), self.random.randint(0, 2))
        return [{"names": [name, f"{name}@sha256:{'0' * 64}"], "sizeBytes": IMAGES[name]} for name in held]

    def _taint(self, key: str) -> Json:
        effect = self.random.choice(["NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"])
        return {"key": key, "value": self.random.choice("xy"), "effect": effect}

    # Pods

    def services(self) -> list[Json]:
        """What spreads pods that say nothing of it themselves."""
        selectors = {"web": {"app": "web"}, "front": {"tier": "front"}, "none": None}
        return [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name},
                "spec": {"clusterIP": "None", "selector": selector},
            }
            for name, selector in selectors.items()
        ]

    def profile(self) -> str:
        """The schedulerName of a profile: often `parity`, else one of those with other arguments."""
        return PARITY if self.random.random() < 0.5 else self.random.choice(list(PARITY_VARIANTS))

    def pod(self, name: str, scheduler: str) -> Json:
        """A pod with a few wishes; often none of a kind."""
        self._free_ports = self.random.sample([8080, 8081], 2)
        spec: Json = {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [self._container(f"c{i}") for i in range(self.random.choice([1, 1, 2]))],
            "initContainers": self._init_containers(),
            "tolerations": self._tolerations(),
            "nodeSelector": self._maybe(0.1, {"disk": self.random.choice(["ssd", "hdd", "tape"])}) or {},
            "affinity": {
                "nodeAffinity": self._node_affinity(),
                "podAffinity": self._pod_rules(0.06),
                "podAntiAffinity": self._pod_rules(0.12),
            },
            "topologySpreadConstraints": self._spread(),
        }
        if self.random.random() < 0.1:
            spec["resources"] = self._for_the_whole([*spec["containers"], *spec["initContainers"]])
        labels = {"app": self.random.choice(APPS), "tier": self.random.choice(["front", "back"])}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}

    def _maybe(self, probability: float, value: Any) -> Any:
        return value if self.random.random() < probability else None

    def _container(self, name: str, *, sidecar: bool = False) -> Json:
        chance = self.random
        requests: Json = {}
        if chance.random() < 0.7:
            requests["cpu"] = chance.choice(["0", "50m", "250m", "500m", "1", "1500m"])
        if chance.random() < 0.7:
            requests["memory"] = chance.choice(["0", "64Mi", "100M", "1Gi", "1500Mi", "0.5Gi"])
        if chance.random() < 0.1:
            requests["ephemeral-storage"] = chance.choice(["1Gi", "20Gi"])
        limits: Json = {}
        if chance.random() < 0.1:
            requests[GPU] = limits[GPU] = str(chance.randint(1, 2))
        if "cpu" not in requests and chance.random() < 0.3:
            limits["cpu"] = "300m"  # the API server makes it the request as well
        return {
            "name": name,
            "image": chance.choice([*IMAGES, "registry.example/plain", "registry.example/absent:1"]),
            "ports": self._ports(),
            "resources": {"requests": requests, "limits": limits},
            **({"restartPolicy": "Always"} if sidecar else {}),
        }

    def _for_the_whole(self, containers: list[Json]) -> Json:
        """Resources of the pod as a whole; what its containers ask for is cut down to be less."""
        chance = self.random
        for container in containers:
            small = {"cpu": "50m", "memory": "64Mi"}
            given = container["resources"]["requests"]
            given |= {name: small[name] for name in small if name in given}
            container["resources"]["limits"].pop("cpu", None)
        amounts = {"cpu": chance.choice(["250m", "1"]), "memory": chance.choice(["512Mi", "1Gi"])}
        named = {name: amounts[name] for name in chance.choice([["cpu"], ["memory"], ["cpu", "memory"]])}
        return {chance.choice(["requests", "requests", "limits"]): named}

    def _ports(self) -> list[Json]:
        chance = self.random
        if chance.random() < 0.8 or not self._free_ports:
            return []
        port: Json = {"containerPort": 80, "hostPort": self._free_ports.pop()}
        if chance.random() < 0.5:
            port["protocol"] = chance.choice(["TCP", "UDP"])
        if chance.random() < 0.5:
            port["hostIP"] = chance.choice(["0.0.0.0", "10.1.1.1", "10.1.1.2"])
        return [port]

    def _spread(self) -> list[Json]:
        chance = self.random
        if chance.random() < 0.6:
            return []
        return [self._constraint(key) for key in chance.sample([ZONE, HOSTNAME, "disk"], chance.choice([1, 1, 2]))]

    def _constraint(self, key: str) -> Json:
        chance = self.random
        when = chance.choice(["DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway"])
        result: Json = {"topologyKey": key, "maxSkew": chance.choice([1, 1, 2]), "whenUnsatisfiable": when}
        result["labelSelector"] = chance.choice([*({"matchLabels": {"app": app}} for app in APPS), {}, SOME])
        if when == "DoNotSchedule" and chance.random() < 0.2:
            result["minDomains"] = chance.choice([2, 4])
        if chance.random() < 0.3:
            result["nodeAffinityPolicy"] = chance.choice(["Honor", "Ignore"])
        if chance.random() < 0.3:
            result["nodeTaintsPolicy"] = chance.choice(["Honor", "Ignore"])
        if chance.random() < 0.2 and result["labelSelector"]:
            result["matchLabelKeys"] = ["tier"]
        return result

    def _init_containers(self) -> list[Json]:
        if self.random.random() < 0.7:
            return []
        return [self._container(f"i{i}", sidecar=self.random.random() < 0.5) for i in range(self.random.choice([1, 2]))]

    def _tolerations(self) -> list[Json]:
        chance = self.random
        result: list[Json] = []
        for _ in range(chance.choice([0, 0, 1, 2])):
            entry: Json = {"operator": "Exists"}
            key = chance.choice(["", "a", "b"])
            if key:
                entry["key"] = key
                if chance.random() < 0.5:
                    entry |= {"operator": "Equal", "value": chance.choice("xy")}
            if effect := chance.choice(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]):
                entry["effect"] = effect
            result.append(entry)
        return result

    def _node_affinity(self) -> Json:
        chance = self.random
        affinity: Json = {}
        if chance.random() < 0.2:
            terms = [self._term() for _ in range(chance.choice([1, 2]))]
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if chance.random() < 0.3:
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": chance.choice([1, 10, 100]), "preference": self._term()}
                for _ in range(chance.choice([1, 2]))
            ]
        return affinity

    def _pod_rules(self, required: float) -> Json:
        rules: Json = {}
        if self.random.random() < required:
            rules["requiredDuringSchedulingIgnoredDuringExecution"] = [self._pod_term()]
        if self.random.random() < 0.2:
            rules["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self.random.choice([1, 30, 100]), "podAffinityTerm": self._pod_term()}
                for _ in range(self.random.choice([1, 2]))
            ]
        return rules

    def _pod_term(self) -> Json:
        chance = self.random
        term: Json = {"topologyKey": chance.choice([HOSTNAME, HOSTNAME, ZONE, "disk"])}
        term["labelSelector"] = chance.choice([{"matchLabels": {"app": app, "tier": "front"}} for app in APPS] + [SOME])
        if chance.random() < 0.2:
            term["namespaceSelector"] = chance.choice([{}, {"matchLabels": {"team": "none"}}])
        return term

    def _term(self) -> Json:
        if self._node_names and self.random.random() < 0.1:
            names = [self.random.choice(self._node_names)]
            return {
                "matchFields": [
                    {"key": "metadata.name", "operator": self.random.choice(["In", "NotIn"]), "values": names}
                ]
            }
        return {"matchExpressions": [self._expression() for _ in range(self.random.choice([1, 1, 2]))]}

    def _expression(self) -> Json:
        chance = self.random
        key = chance.choice(["disk", "cores", ZONE])
        match chance.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt"]):
            case "Gt":
                return {"key": "cores", "operator": chance.choice(["Gt", "Lt"]), "values": ["5"]}
            case "In" | "NotIn" as operator:
                values = {"disk": ["ssd"], "cores": ["4", "many"], ZONE: ["zone-a", "zone-b"]}[key]
                return {"key": key, "operator": operator, "values": values}
            case operator:
                return {"key": key, "operator": operator}
