"""The meaning of each key of the fleet directory, in one line. A test proves the table complete."""

from collections.abc import Mapping

from holdfast.declared import drills, health, needs, schedules, snapshots

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "FleetFile": {
        "fleet": "the fleet itself",
        "operators": "the people who may sign changes",
        "nodes": "the machines",
        "trust": "how many operators must sign",
        "storage": "places for copies of backups, besides the hub's own store",
        "policies": "authorization rules and what they apply to",
        "backups": "how often services are backed up and how many backups are kept",
        "timeouts": "how long each kind of work may take",
        "alerts": "where the hub and nodes send alerts",
        "acme": "a public authority that edges order certificates from; without it each edge issues its own",
        "dns": "which nodes serve internal names",
        "overlay": "the network between the nodes",
        "provides": "what nodes give to services that need it: databases with logins, for example",
    },
    "Settings": {
        "name": "the name of the fleet",
        "hub": "the URL of the hub; without it the ledger is stored in `.ledger/`",
        "hub_key": "the hub's public key as `holdfast hub init` prints it: clients accept no other hub",
        "internal_zone": "the DNS zone in which services find each other, as `COMPONENT.SERVICE.ZONE`, and as "
        "`SERVICE.ZONE` where a component is named like its service; `holdfast.internal` if left out",
        "public_domains": "the domains that public routes may use, with all their subdomains; an edge needs one",
        "overlay_cidr": "the network in which nodes reach each other; it contains the address of every node",
        "removals_max": "how many removals one apply may contain",
        "nodes_max": "how many nodes the fleet may have",
        "parallel": "how many services one node changes at the same time",
    },
    "Thresholds": {
        "apply": "signatures needed to change what runs",
        "destroy": "signatures needed to give up data or protection",
        "destroy_requires": "`touch`: for the grades destroy and root only signatures of security keys count (`sk-`), "
        "each made with a touch; if left out, every key counts",
        "id": "made by init: distinguishes this fleet from other fleets of the same operators; never change it",
        "root": "signatures needed to change who may sign",
    },
    "Operator": {
        "name": "the name of the operator",
        "key": "one line of an SSH public key file",
        "grade": "the highest grade this operator may sign for",
        "recipient": "the age recipient that secrets are encrypted to",
        "scope": "what this operator is limited to: addresses such as `service.web` or `service.*` (own names, on "
        "workers), more names (`name:www.example.com`, `name:*.shop.example.com`), nodes to place on (`node:w1`)",
    },
    "Node": {
        "name": "the name of the node",
        "roles": "what the node does; only a `worker` gets services by placement, a node with only `edge` gets none; "
        "a `provider` gives what `[[provides]]` says; `builder` has no effect yet",
        "address": "its address in the overlay network; if left out, the address that its agent reports is recorded",
        "public_address": "its address on the internet, if it has one; public DNS names should point to it",
        "key": "its public key, if you know it before it joins; else the key it joins with is recorded",
        "link": "`poll`: the agent connects to the hub; `dial`: the hub connects to the agent",
        "reconcile": "`converge`: apply the changes; `observe`: only report differences",
        "orphans": "what to do with containers that are not declared",
        "orphans_foreign": "whether containers that Holdfast did not make count as orphans",
        "proxy": "`public` is the default on an edge and listens on the internet; `internal` is the default on other "
        "nodes. `none`: containers are reached at the node's address without TLS; this needs `encrypted = true` in "
        "`[overlay]` and allows no public route",
        "peer_calls": "which agents its agent may call, and be called by: those of its moves and of needs, or none. "
        "With `relay` and `off` the data of its moves goes through the hub, and the node neither has needs nor "
        "provides for any; the two mean the same until needs can go through the hub",
        "direct": "whether its agent accepts commands without the hub; `on` has no effect yet",
        "labels": "your own facts about the node",
    },
    "Storage": {
        "name": "the name of the target",
        "type": "`local-dir`: a mounted directory; `usb`: a disk that the node mounts; `s3`: a bucket; `restic`: a "
        "repository ([targets](backup-targets.md))",
        "durable_id": "what identifies it wherever it is attached. A directory: the id in its `.holdfast-target`, or "
        "the share it is mounted from (`server:/export`); a disk: the UUID of its file system; a bucket: any name, "
        "which the first node writes into it; a repository: its id",
        "location": "the path of a directory, `https://HOST/BUCKET/FOLDER`, or the address of a repository; a disk has "
        "none",
        "nodes": "the nodes that use it; left out: every node. A disk has exactly one; what has a secret names all",
        "secret": "its credentials, sealed in `secrets/NAME.age`",
        "class": "how fast the target is: a restore reads from a `fast` one first",
        "role": "`primary`: it decides, in place of the hub, whether a backup is made; `copy`; `offsite`: a copy that "
        "a restore reads last",
        "policy": "how many backups it keeps",
        "state": "`attached`: it is in use; `disconnected` (for now) and `decommissioned` (for good): it is not",
    },
    "Provides": needs.OF_PROVIDERS,
    "StoragePolicy": {
        "schedule": "when backups will be written to it",
        "retain": "how many backups it keeps, as in `[backups]`; left out: as many as `[backups]` says",
    },
    "Retain": {
        "last": "the newest ones",
        "daily": "the newest one of each of so many days (UTC) that have any",
        "weekly": "the same for weeks, from Monday to Sunday",
        "monthly": "the same for months",
    },
    "PolicyBinding": {
        "name": "the name of the policy",
        "file": "its text, a file in `policies/`",
        "applies_to": "`fleet`, or services as `service.NAME`",
    },
    "Backups": {
        "interval": "how often a service is backed up; this or `cron`. A new service is backed up at once",
        "retain": "how many backups of a service are kept, of those by schedule and of those by order: a number, or a "
        "table. The newest one always stays",
        "drill_interval": "how often a backup of a service is proven by a drill (docs/guides/backups.md); this or "
        "`drill_cron`",
        "cron": "when a service is backed up, in place of `interval`: five fields or `@daily` as in `[[schedule]]`. "
        "Each service begins at its own time within five minutes after them. An agent that did not run then begins at "
        "its start",
        "drill_cron": "the same for drills, in place of `drill_interval`",
        "timezone": "the time zone of `cron` and `drill_cron`",
    },
    "Timeouts": {
        "deploy": "how long a command waits for a new version to become healthy",
        "edge_route": "how long a change of a public route may take",
        "health_check": "how long the hub waits when it probes a silent node",
        "undeploy": "how long it may take to remove a service",
        "snapshot": "how long a backup waits for a change of its service before it is skipped",
    },
    "AlertTarget": {
        "name": "the name of the target",
        "webhook": "the hub posts alerts to this URL as JSON; this or `apprise`. The URL is often a secret: it is "
        "stored unencrypted in this file and in the ledger, plans show it masked, and no node's manifest has it",
        "apprise": "a URL of any service that Apprise supports; this or `webhook`, and as secret",
        "on": "the codes of the alerts it gets, such as `node_silent`; all of them if left out",
        "secret": "the secret in `secrets/` that has the URL for `nodes`: an https:// address or an Apprise URL, "
        "sealed to these nodes for `alerts.NAME`",
        "nodes": "the nodes whose agents send here themselves when they do not hear the hub, which sends nothing here",
        "after": "how long such a node does not hear the hub before it sends; at least four heartbeats (2 minutes)",
        "quiet": "quiet hours such as `22:00-07:00`: what is raised in them is sent when they end, if it is not over "
        "by then",
        "timezone": "the time zone of `quiet`",
        "quiet_except": "the codes of the alarms that are sent in quiet hours too, with their recoveries",
    },
    "Acme": {
        "directory": "the URL of the authority's directory (RFC 8555)",
        "contact": "your contact address at the authority, such as `mailto:you@example.com`",
        "terms_agreed": "whether you agree to the authority's terms; without it no certificate is ordered",
        "ca": "the PEM text of the authority's own certificate (the text, not a file name), if the machines do not "
        "trust it already",
        "domains": "the domains it issues for, with all their subdomains; all `public_domains` if left out",
    },
    "Dns": {
        "driver": "`dnsmasq`: nodes serve internal names; `none`: no node does",
        "nodes": "the nodes that serve them; all nodes if left out",
        "upstream": "addresses of the DNS servers for all other names; those of the machine if left out",
    },
    "Overlay": {
        "driver": "`external`: you set up the network; Holdfast checks that addresses are in it",
        "encrypted": "whether this network encrypts its traffic, as WireGuard does; Holdfast cannot check it",
    },
    "Service": {
        "components": "the containers of the service",
        "name": "may repeat the name of the file, which is the name of the service",
        "tier": "`core` runs on the hub node, `worker` on a worker that Holdfast chooses",
        "node": "pins the service to this node, whatever its tier",
        "active": "whether it should run; `false` keeps its placement and its data",
        "protect": "refuses every removal of the service while it is true",
        "custody": "which keys open its backups: `sealed`, those of operators and its node; `hub`, the hub's too "
        "(ADR 0044)",
        "failover": "nodes that may run it while its own node is silent",
        "snapshot": "which of its files backups hold",
        "schedule": "commands that a component runs at certain minutes",
        "drill": "what a drill of its backups looks at besides the health checks",
        "needs": "what it needs of other nodes: credentials that are made for it, and revoked when it is gone",
    },
    "Schedule": schedules.MEANINGS,
    "Drill": drills.MEANINGS,
    "Need": needs.OF_NEEDS,
    "Deliver": needs.OF_DELIVERY,
    "Component": {
        "name": "the name of the component",
        "image": "the image it runs",
        "cmd": "the command, in place of the image's own",
        "env": "environment variables. Holdfast adds `HOLDFAST_SERVICE`, `HOLDFAST_COMPONENT` and `HOLDFAST_EPOCH`, "
        "and no `PORT`: set it if the program needs it",
        "volumes": "data that outlives the container; the string form is `HOST:CONTAINER`. An agent in its systemd "
        "unit sees no HOST below `/home`, `/root`, `/run/user`, `/tmp` and `/var/tmp`",
        "routes": "how it is reached",
        "resources": "what it may use",
        "update": "`rolling`: start the new version before the old one stops; `recreate`: stop the old one first",
        "replicas": "how many copies of it run",
        "health": "when it counts as healthy. Besides, each port of its routes that this check does not ask has to "
        "accept a TCP connection. Without it, that is enough, and a component without routes is healthy when it has "
        "run for the time of `settle`",
        "secrets": "the secrets it gets: a name becomes the file `/run/secrets/NAME`; a table chooses file or variable",
        "hooks": "commands that run once per deployment in its new image, never on the host",
        "user": "the user that its program runs as, in place of the image's own: `USER` or `USER:GROUP`, numbers or "
        "names of the image. Hooks, schedules and health checks of the component run as the same user",
        "scratch": "directories in the container whose content may be lost with it, at the next update for example. "
        "This answers the finding `undeclared_volume` about a directory that the image declares with `VOLUME`",
        "settle": "only without `health` and `routes`: it counts as healthy when it has run so long without an end; "
        "`3s` if left out",
        "stop_timeout": "how long it may take to end when it is told to (SIGTERM, or the image's own signal) before it "
        "is killed; `10s` if left out, at most `4m`, rounded up to seconds. A shell script or `sleep` ignores SIGTERM "
        "as the first process of a container, and takes all of it",
    },
    "SecretRef": {
        "name": "the secret: `secrets/NAME.age`, made by `holdfast secret set NAME`",
        "env": "the variable that gets the value; then there is no file, unless `file` is set too",
        "file": "the name of the file below `/run/secrets`; the name of the secret if left out",
    },
    "Hooks": {
        "pre_deploy": "runs before the new version starts, without its volumes; if it fails or takes more than 4 "
        "minutes, the old version stays. An image with an entrypoint gets it as arguments, as with `podman run IMAGE`",
        "post_deploy": "runs once the new version serves, with its volumes; if it fails, the failure is reported and "
        "the new version stays",
    },
    "Route": {
        "name": "the name of the route",
        "port": "the port the component listens on",
        "mode": "`l7` is HTTP on port 443; `l4` passes TLS through unread, by its SNI name: on 443, 8443 or 9443 if "
        "the component's port is one of these, else on 8443. An `l4` route shares this port with no other route of its "
        "component",
        "hostname": "a further name. For a public route: within `public_domains`; by default `SERVICE.DOMAIN` with the "
        "first of them. For any other route: within the internal zone. Only one service may have a hostname",
        "public": "whether an edge serves it on the internet",
        "protocol": "the protocol of the component behind `l7`: `h2c` is HTTP/2 without TLS, as gRPC servers use it",
        "pass_headers": "headers of clients that the proxies would remove, such as `remote-user` or "
        "`cf-connecting-ip`: the component gets them as any client sent them, from the internet too if it is public",
    },
    "Volume": {
        "name": "the name of the volume",
        "path": "where it is mounted in the component",
        "protect": "your decision about its data; there is no default on purpose",
        "class": "how fast its storage should be",
        "checkpoint": "`auto`: its data is copied before another program gets it, for example with a new image; `off`: "
        "no copy is made, and there is no way back. Switching it off needs a signature of grade destroy",
        "owner": "`UID:GID`: everything in the volume belongs to this user and group. If left out, a new volume has "
        "the owner that the directory has in the image. Changing it rewrites the owner of all data in the volume, and "
        "needs a signature of grade destroy",
    },
    "Resources": {
        "cpu": "processors",
        "memory": "memory",
    },
    "Health": health.MEANINGS,
    "Snapshot": snapshots.MEANINGS,
}
