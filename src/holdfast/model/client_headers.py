"""The request headers by which a proxy in front tells a service who asks, from where and for what. Values only.

A client could invent them, so the proxies remove them.
"""

# The proxies compute or own these: a route cannot have them passed on.
OWN = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-real-ip")
OWN_PREFIXES = ("x-envoy-", "x-holdfast-")

# A route may have these passed on by `pass_headers`. They come from forward-auth proxies (oauth2-proxy, Authelia,
# authentik, Pomerium), from proxies that end client certificates, from content delivery networks and from clouds.
PREFIXES = (
    "remote-",
    "ssl-client-",
    "tailscale-user-",
    "x-auth-request-",
    "x-authentik-",
    "x-forwarded-",
    "x-goog-authenticated-user-",
    "x-ms-client-principal-",
    "x-original-",
    "x-pomerium-claim-",
    "x-remote-",
    "x-ssl-client-",
    "x-vouch-",
    "x-webauth-",
)
NAMES = (
    "cf-access-authenticated-user-email",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "front-end-https",
    "proxy",  # a CGI reads it as HTTP_PROXY and sends its own requests there
    "true-client-ip",
    "x-amzn-oidc-identity",
    "x-appengine-user-ip",
    "x-authenticated-email",
    "x-authenticated-groups",
    "x-authenticated-user",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-client-cert",
    "x-client-dn",
    "x-client-ip",
    "x-client-verify",
    "x-cluster-client-ip",
    "x-forwarded",
    "x-host",
    "x-ms-client-principal",
    "x-proxy-user",
    "x-rewrite-url",
)


def is_own(name: str) -> bool:
    return name in OWN or name.startswith(OWN_PREFIXES)
