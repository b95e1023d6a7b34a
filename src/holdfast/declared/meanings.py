"""What each key of the fleet directory is for, in one line. A test proves the table complete."""

from collections.abc import Mapping

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "FleetFile": {
        "fleet": "the fleet itself",
        "operators": "who may sign changes",
        "nodes": "the machines",
        "trust": "how many operators must sign",
        "storage": "targets for volumes and backups",
        "policies": "authorization rules and what they apply to",
        "backups": "when backups will be taken and how many will be kept",
        "timeouts": "how long each kind of work may take",
        "alerts": "whom the hub tells when something needs a person",
        "acme": "a public authority that edges order certificates from; without it each edge issues its own",
        "dns": "who answers for internal names",
        "overlay": "the network between the nodes",
    },
    "Settings": {
        "name": "the name of the fleet",
        "hub": "where the hub listens; without it the ledger is kept in `.ledger/`",
        "hub_key": "the hub's own public key as `holdfast hub init` prints it: nobody else can pose as the hub",
        "internal_zone": "the DNS zone in which services find each other, as `COMPONENT.SERVICE.ZONE`, and as "
        "`SERVICE.ZONE` where a component is named like its service; `holdfast.internal` if left out",
        "public_domains": "the domains that public routes may use, each with everything below it; an edge needs one",
        "overlay_cidr": "the network in which nodes reach each other; every address of a node lies in it",
        "removals_max": "how many removals one apply may contain",
        "nodes_max": "how many nodes the fleet may have",
        "parallel": "how many services one node changes at a time",
    },
    "Thresholds": {
        "apply": "signatures needed to change what runs",
        "destroy": "signatures needed to give up data or protection",
        "id": "made by init: tells this fleet from every other one of the same operators; never change it",
        "root": "signatures needed to change who may sign",
    },
    "Operator": {
        "name": "the name of the operator",
        "key": "one line of an SSH public key file",
        "grade": "the most this operator may sign for",
        "recipient": "the age recipient that secrets are encrypted to",
        "scope": "the addresses this operator is limited to, such as `service.web` or `service.*`",
    },
    "Node": {
        "name": "the name of the node",
        "roles": "what the node is for; only a `worker` is chosen for services, an `edge` alone takes none; `provider` "
        "and `builder` have no effect yet",
        "address": "its address in the overlay network; where it is left out, the one its agent reports is recorded",
        "public_address": "its address on the internet, if it has one; public names are expected to lead there",
        "key": "its public key, if you know it before it joins; else the one it joins with is recorded",
        "link": "`poll`: the agent asks the hub; `dial`: the hub calls the agent",
        "reconcile": "`converge`: make it so; `observe`: only report differences",
        "orphans": "what to do with containers nobody declared",
        "orphans_foreign": "whether containers that Holdfast did not make count as orphans",
        "proxy": "`public` on an edge, which answers the internet as nobody else does, and `internal` on every other "
        "node: so it is if left out. `none`: containers are reached at the node's address without TLS, so only with "
        "`encrypted = true` in `[overlay]`, and never by a public route",
        "peer_calls": "which agents its agent may call",
        "direct": "whether it takes calls of commands without the hub; `on` has no effect yet",
        "labels": "facts of your own about the node",
    },
    "Storage": {
        "name": "the name of the target",
        "type": "the kind of storage",
        "durable_id": "what identifies it when it is plugged in elsewhere",
        "class": "how fast the target is",
        "role": "what it is used for",
        "policy": "when backups will be written to it and how many it will keep",
        "state": "whether it is in use",
    },
    "StoragePolicy": {
        "schedule": "when backups will be written to it",
        "retain": "how many backups it will keep",
    },
    "PolicyBinding": {
        "name": "the name of the policy",
        "file": "its text, a file in `policies/`",
        "applies_to": "`fleet`, or services as `service.NAME`",
    },
    "Backups": {
        "interval": "how often a service will be backed up",
        "retain": "how many backups of a service will be kept",
        "drill_interval": "how often a restore will be tried out",
    },
    "Timeouts": {
        "deploy": "how long a command waits for a new version to come up",
        "edge_route": "changing a public route",
        "health_check": "how long the hub waits when it probes a silent node",
        "undeploy": "taking a service down",
        "snapshot": "taking one snapshot",
    },
    "AlertTarget": {
        "name": "the name of the target",
        "webhook": "the hub posts the alert there as JSON; this or `apprise`. Such a URL is often a secret: it lies "
        "in the clear in this file and in the ledger, plans show it masked, and no node's manifest has it",
        "apprise": "any service that Apprise knows; this or `webhook`, and as secret",
        "on": "the codes of alerts it is told, such as `node_silent`; all of them if left out",
    },
    "Acme": {
        "directory": "where the authority is asked, an address of RFC 8555",
        "contact": "whom it may write to, such as `mailto:you@example.com`",
        "terms_agreed": "that you agree to its terms; it issues nothing without",
        "ca": "the PEM text of the authority's own certificate (the text itself, no file name), if machines do not "
        "trust it anyway",
        "domains": "the domains it is asked for, each with everything below it; all `public_domains` if left out",
    },
    "Dns": {
        "driver": "`dnsmasq`: nodes answer for internal names themselves; `none`: nobody does",
        "nodes": "the nodes that do; all of them if left out",
        "upstream": "addresses of servers that are asked for every other name; the machine's own if left out",
    },
    "Overlay": {
        "driver": "`external`: the network is set up by other means, and Holdfast checks that addresses lie in it",
        "encrypted": "that this network encrypts by itself, as WireGuard does; nobody can check that for you",
    },
    "Service": {
        "components": "the containers of the service",
        "name": "may repeat the name of the file, which is the name of the service",
        "tier": "`core` belongs on the hub node, `worker` on a worker that Holdfast chooses",
        "node": "pins the service to this node, whatever its tier",
        "active": "whether it should run; `false` keeps its place and its data",
        "protect": "refuses every removal until lifted",
        "custody": "which keys will open its backups: only those of operators, or the hub's too",
        "failover": "nodes it may move to when its own is lost",
        "snapshot": "how its data will be copied",
    },
    "Component": {
        "name": "the name of the component",
        "image": "the image it runs",
        "cmd": "the command, instead of the image's own",
        "env": "environment variables; nothing is added, no `PORT` either: say yourself what it listens on",
        "volumes": "data that outlives the container; the string form is `HOST:CONTAINER`",
        "routes": "how it is reached",
        "resources": "what it may use",
        "update": "start the new before stopping the old, or the other way round",
        "replicas": "how many of it run",
        "health": "when it counts as healthy",
        "secrets": "secrets it is given: a name is the file `/run/secrets/NAME`; a table chooses",
        "hooks": "commands that run once per deployment in its new image, never on the host",
    },
    "SecretRef": {
        "name": "the secret: `secrets/NAME.age`, made by `holdfast secret set NAME`",
        "env": "the variable it becomes; then it is no file unless `file` says so too",
        "file": "the file it becomes below `/run/secrets`; named like the secret if left out",
    },
    "Hooks": {
        "pre_deploy": "runs before the new one starts, without its volumes; if it fails or takes more than 4 minutes, "
        "the old one stays. An image with an entrypoint gets it as arguments, as after `podman run IMAGE`",
        "post_deploy": "runs once the new one serves, with its volumes; if it fails, that is reported and the new one "
        "stays",
    },
    "Route": {
        "name": "the name of the route",
        "port": "the port the component listens on",
        "mode": "`l7` speaks HTTP on port 443; `l4` passes TLS on unread, by the name the client asks for: on 443, "
        "8443 or 9443 if the component's port is one of these, else on 8443. One route of a component per port",
        "hostname": "a further name. Of a public route: within `public_domains`, else it is `SERVICE.DOMAIN` with the "
        "first of them. Of any other: within the internal zone. One service per hostname",
        "public": "whether an edge answers for it on the internet",
        "protocol": "what the component speaks behind `l7`: `h2c` is HTTP/2 without TLS, as gRPC servers do",
    },
    "Volume": {
        "name": "the name of the volume",
        "path": "where the component sees it",
        "protect": "your decision about its data; there is no default on purpose. Nothing is archived yet, so each "
        "volume has one copy, on its node",
        "class": "how fast its storage should be",
    },
    "Resources": {
        "cpu": "processors",
        "memory": "memory",
    },
    "Health": {
        "type": "how to ask",
        "path": "for `http`; `/` if left out",
        "port": "the port to ask on; that of the only route if left out",
        "cmd": "for `exec`: the command that succeeds when healthy",
        "interval": "the pause between two checks",
        "timeout": "how long one check may take",
        "start_period": "not healthy this long after the start means the rollout failed",
    },
    "Snapshot": {
        "method": "how a consistent copy is made",
        "include": "files to copy",
        "exclude": "files to leave out",
    },
}
