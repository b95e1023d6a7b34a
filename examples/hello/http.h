// The smallest HTTP/1.1 server that a proxy can live with: a thread per connection, keep-alive, an orderly end.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_MAX = 8192, BODY_MAX = 1024, IDLE_S = 30, DRAIN_MS = 2000 };

// Answers `path`: writes at most BODY_MAX bytes into body, names the type, returns the status.
typedef int (*answerer)(const char *path, char *body, const char **type);

static answerer answer_with;
static atomic_int stopping, busy;

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
    return send(link, out, size + strlen(body), MSG_NOSIGNAL) > 0 && keep;
}

static void *converse(void *given) {
    int link = (int)(intptr_t)given, have = 0;
    char request[REQUEST_MAX + 1];
    struct timeval idle = {.tv_sec = IDLE_S};
    setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof idle);
    setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
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
        path[strcspn(path, "?")] = 0;
        keep = respond(link, understood ? path : "", keep);
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

static void pause_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

// As the first process of a container a signal has no effect unless somebody waits for it.
static void *await_end(void *signals) {
    int which;
    sigwait(signals, &which);
    atomic_store(&stopping, 1);
    for (int waited_ms = 0; atomic_load(&busy) && waited_ms < DRAIN_MS; waited_ms += 5) pause_ms(5);
    exit(0);
}

static void mind_signals(void) {
    static sigset_t ends;
    pthread_t thread;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    pthread_create(&thread, NULL, await_end, &ends);
}

static void serve(int port, answerer answer) {
    answer_with = answer;
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port)};
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(door, (void *)&here, sizeof here) || listen(door, 256)) {
        perror("listen");
        exit(1);
    }
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 * 1024);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (;;) {
        pthread_t thread;
        int link = accept(door, NULL, NULL);
        if (link < 0) continue;
        if (atomic_load(&stopping) || pthread_create(&thread, &small, converse, (void *)(intptr_t)link)) close(link);
    }
}
