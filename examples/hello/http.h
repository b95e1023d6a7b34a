// The smallest HTTP/1.1 server that a proxy can live with: keep-alive, pipelining, and a way out for other protocols.
#include "server.h"

enum { REQUEST_MAX = 8192, BODY_MAX = 1024, IDLE_MS = 30000 };

// Answers `path`: writes at most BODY_MAX bytes into body, names the type, returns the status.
typedef int (*answerer)(const char *path, char *body, const char **type);
// Takes the connection over if the request asks for another protocol: returns 0 if it does not. `head` ends with an
// empty line.
typedef int (*upgrader)(int link, const char *path, const char *head);

static answerer answer_with;
static upgrader upgrade_with;
static _Thread_local char query[256];  // what stood behind the question mark of the request that is being answered

static const char *reason(int status) { return status == 200 ? "OK" : status == 404 ? "Not Found" : "Error"; }

static int respond(int link, const char *path, int keep) {
    char body[BODY_MAX] = "", head[256];
    const char *type = "text/plain";
    int status = answer_with(path, body, &type);
    int size = snprintf(head, sizeof head,
                        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: %s\r\n\r\n", status,
                        reason(status), type, strlen(body), keep ? "keep-alive" : "close");
    char out[sizeof head + sizeof body];
    memcpy(out, head, size);
    memcpy(out + size, body, strlen(body));
    return send_all(link, out, size + strlen(body)) && keep;
}

static void split_query(char *path) {
    char *mark = strchr(path, '?');
    snprintf(query, sizeof query, "%s", mark ? mark + 1 : "");
    if (mark) *mark = 0;
}

static void receive_at_most_ms(int link, long ms) {
    struct timeval patience = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

static void *converse_http(void *given) {
    int link = (int)(intptr_t)given, have = 0;
    char request[REQUEST_MAX + 1];
    receive_at_most_ms(link, IDLE_MS);
    for (;;) {
        char *end;
        request[have] = 0;
        while (!(end = strstr(request, "\r\n\r\n"))) {
            int got = have < REQUEST_MAX ? recv(link, request + have, REQUEST_MAX - have, 0) : 0;
            if (got <= 0) goto over;
            request[have += got] = 0;
        }
        atomic_fetch_add(&busy, 1);
        char method[16], path[1024];
        int understood = sscanf(request, "%15s %1023s", method, path) == 2 && !strcasecmp(method, "GET");
        end[2] = 0;
        int keep = understood && !strcasestr(request, "\r\nConnection: close\r\n") && !atomic_load(&stopping);
        if (understood) split_query(path);
        int taken = keep && upgrade_with && upgrade_with(link, path, request);
        keep = !taken && respond(link, understood ? path : "", keep);
        atomic_fetch_sub(&busy, 1);
        if (!keep) break;
        int used = end + 4 - request;
        memmove(request, request + used, have -= used);
    }
over:
    shutdown(link, SHUT_WR);
    close(link);
    return NULL;
}

static void serve(int port, answerer answer) {
    answer_with = answer;
    open_door(port, converse_http);
}
